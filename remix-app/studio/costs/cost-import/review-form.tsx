import type { ReactNode } from "react";
import { AccountForm } from "../../../ui/account-form.tsx";
import { Button, ButtonLink } from "../../../ui/button.tsx";
import { Card } from "../../../ui/card.tsx";
import { ErrorSummary } from "../../../ui/error-summary.tsx";
import { FactList } from "../../../ui/facts.tsx";
import { CheckBox, Field, Select } from "../../../ui/field.tsx";
import { countOf, formatExactUsd } from "../../../ui/format-amount.ts";
import { Notice } from "../../../ui/notice.tsx";
import { changedDays, type ImportPreview } from "./import-answers.ts";
import { rateField } from "./import-choices.ts";
import { ImportPreviewCards } from "./import-preview.tsx";
import type { ImportReview } from "./import-steps.ts";
import { ServiceChoice } from "./service-choice.tsx";

const repeatMessages = {
  edited: "You changed something after the preview. Check the totals, then import.",
  changed: "Other costs were imported after the preview, so nothing was imported. Check the new preview, then import.",
} as const;

/**
 * Shows a cost file before it is stored, with the choices for the import and the changes that it would make.
 * @param props.hidden fields of the upload form to keep
 * @param props.facts other facts about the import, such as its app
 * @param props.children fields that confirm the import, such as a reason
 */
export function ImportReviewForm({
  review,
  uploadTo,
  hidden = {},
  facts = [],
  children,
}: {
  review: ImportReview;
  /** The page on which to upload another file. */
  uploadTo: string;
  hidden?: Record<string, string>;
  facts?: readonly (readonly [term: string, text: string])[];
  children?: ReactNode;
}) {
  const { draftId, file, sources, services, currencies, asksAccount, choices, errors, preview, previewed } = review;
  const { form: fault, ...faults } = errors;
  const changes = preview !== null && changedDays(preview) > 0;
  return (
    <AccountForm noValidate className="space-y-6">
      <input type="hidden" name="draft" value={draftId} />
      <input type="hidden" name="reviewedSource" value={choices.source} />
      <input type="hidden" name="previewed" value={previewed ?? ""} />
      <input type="hidden" name="state" value={preview?.state ?? ""} />
      {Object.entries(hidden).map(([name, value]) => (
        <input key={name} type="hidden" name={name} value={value} />
      ))}
      <ErrorSummary id="import-error" form={fault} fields={faults} />
      {review.again ? <Notice tone="warn">{repeatMessages[review.again]}</Notice> : null}
      <Card
        title={file.fileName}
        lead={`${file.formatName.replace(/^(an?|the) /, "")}. Days are in ${zoneName(review.timeZone)}.`}
      >
        <div className="space-y-6">
          <FactList
            facts={[...facts, ["Rows read", file.rows.toLocaleString("en")], ...listSkippedRows(file.skipped)]}
          />
          {file.notes.length > 0 ? (
            <Notice tone="warn">
              {file.notes.map((note) => (
                <p key={note}>{note}</p>
              ))}
            </Notice>
          ) : null}
          <div className="max-w-108 space-y-5">
            {sources.length > 1 ? (
              <Select name="source" label="Provider in the file" defaultValue={choices.source}>
                {sources.map(({ provider, days }, position) => (
                  <option key={provider} value={position}>
                    {`${provider}, ${days.toLocaleString("en")} daily totals`}
                  </option>
                ))}
              </Select>
            ) : null}
            <Field
              name="provider"
              label="Provider"
              hint="As written in runs and invoices, for example openai."
              required
              autoComplete="off"
              autoCapitalize="none"
              spellCheck={false}
              defaultValue={choices.provider}
              error={errors.provider}
            />
            {asksAccount ? (
              <Field
                name="account"
                label="Account"
                hint="For costs without an account in the file."
                required
                autoComplete="off"
                autoCapitalize="none"
                spellCheck={false}
                defaultValue={choices.account}
                error={errors.account}
              />
            ) : null}
            {currencies.map((currency) => (
              <Field
                key={currency}
                name={rateField(currency)}
                label={`US dollars for 1 ${currency}`}
                hint="The rate your accounting uses for this bill. It’s stored with each amount, along with your name."
                inputMode="decimal"
                required
                autoComplete="off"
                defaultValue={choices.rates[currency]}
                error={errors[rateField(currency)]}
              />
            ))}
          </div>
          <ServiceChoice services={services} chosen={choices.services} error={errors.services} />
          <Button name="step" value="preview" variant={changes ? "secondary" : "primary"}>
            Update preview
          </Button>
        </div>
      </Card>
      {preview ? (
        <ImportPreviewCards preview={preview}>
          <MissingDays preview={preview} clear={choices.clear} />
          {changes ? (
            <div className="max-w-108 space-y-5">
              {children}
              <div className="flex flex-wrap gap-3">
                <Button name="step" value="import">
                  Import costs
                </Button>
                <ButtonLink href={uploadTo}>Cancel</ButtonLink>
              </div>
            </div>
          ) : (
            <ButtonLink href={uploadTo}>Upload another file</ButtonLink>
          )}
        </ImportPreviewCards>
      ) : Object.keys(errors).length > 0 ? null : (
        <Notice>
          {currencies.length > 0
            ? `Enter a rate for ${currencies.join(" and ")}, then update the preview to see what changes.`
            : "Complete the fields above, then update the preview to see what changes."}
        </Notice>
      )}
    </AccountForm>
  );
}

/** Asks what to do with days that other files had and this file lacks. Renders nothing if there are none. */
function MissingDays({ preview, clear }: { preview: ImportPreview; clear: boolean }) {
  const { days, amountUsd } = clear ? preview.cleared : preview.remaining;
  if (days === 0) return clear ? <input type="hidden" name="clear" value="1" /> : null;
  return (
    <CheckBox
      id="clear"
      name="clear"
      value="1"
      label={`Set ${countOf(days, "other day")} to 0`}
      hint={`Earlier imports have ${formatExactUsd(amountUsd)} on days in this range that this file doesn’t include. Select this if those imports had the wrong account or too many services. Leave it off if they’re for other accounts. Then update the preview.`}
      defaultChecked={clear}
    />
  );
}

function zoneName(timeZone: string): string {
  return timeZone === "UTC" ? "UTC" : `the provider’s time zone, ${timeZone}`;
}

function listSkippedRows(skipped: ImportReview["file"]["skipped"]): [string, string][] {
  if (skipped.length === 0) return [];
  return [["Left out", skipped.map(({ what, rows }) => `${what} (${rows.toLocaleString("en")})`).join(", ")]];
}
