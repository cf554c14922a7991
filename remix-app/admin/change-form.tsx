import type { ReactNode } from "react";
import { AccountForm } from "../ui/account-form.tsx";
import { Button, ButtonLink } from "../ui/button.tsx";
import { ChangeErrors, ConfirmationField, ReasonField } from "./change-fields.tsx";
import type { Confirmation } from "./confirmation.ts";
import type { FailedChange } from "./failed-change.ts";

/** Renders the form for every change in the console: the effects, a field for the reason, and what to type, if anything. */
export function ChangeForm({
  effects,
  destroys = null,
  failed,
  submit,
  cancelTo,
  cancel = "Cancel",
  children,
  hidden = {},
  preview,
  edit,
  wide = false,
  asksReason = true,
}: {
  /** Each effect is one sentence. */
  effects: readonly string[];
  /** What to type, if the change destroys something. Its button is then red. */
  destroys?: Confirmation | null;
  failed: FailedChange | undefined;
  submit: string;
  cancelTo: string;
  /** Replaces the label “Cancel” of the link that leaves the form, for a change that is itself a cancellation. */
  cancel?: string;
  /** Fields specific to this change, shown before the reason. */
  children?: ReactNode;
  hidden?: Record<string, string | number>;
  /** What the fields change, for forms with a preview. Null until the preview is requested. */
  preview?: readonly string[] | null;
  /** Label of the button that returns to the previous step, for forms that confirm what was entered there. */
  edit?: string;
  /** Gives the fields room for two columns. */
  wide?: boolean;
  /** Whether the change is in the audit log, which records its reason. */
  asksReason?: boolean;
}) {
  return (
    <AccountForm noValidate className="space-y-5">
      <ChangeErrors failed={failed} />
      <section className="space-y-2">
        <h2 id="effects" className="font-semibold text-large">
          What will happen
        </h2>
        <ul aria-labelledby="effects" className="max-w-prose list-disc space-y-1 pl-5">
          {effects.map((effect) => (
            <li key={effect}>{effect}</li>
          ))}
        </ul>
      </section>
      {preview ? (
        <section role="status" aria-label="Preview" className="max-w-prose space-y-1 rounded-card bg-accent-soft p-3">
          <h3 className="font-medium">Preview: nothing is changed yet</h3>
          <ul className="list-disc space-y-1 pl-5">
            {preview.map((line) => (
              <li key={line}>{line}</li>
            ))}
          </ul>
        </section>
      ) : null}
      {Object.entries(hidden).map(([name, value]) => (
        <input key={name} type="hidden" name={name} value={value} />
      ))}
      <div className={`${wide ? "max-w-160" : "max-w-120"} space-y-4`}>
        {children}
        {asksReason ? <ReasonField defaultValue={failed?.typed.reason} error={failed?.fields.reason?.[0]} /> : null}
        {destroys ? <ConfirmationField {...destroys} failed={failed} /> : null}
        <div className="flex flex-wrap gap-3">
          <Button variant={destroys ? "danger" : "primary"}>{submit}</Button>
          {preview === undefined ? null : (
            <Button variant="secondary" name="intent" value="preview">
              Preview
            </Button>
          )}
          {edit === undefined ? null : (
            <Button variant="secondary" name="step" value="edit">
              {edit}
            </Button>
          )}
          <ButtonLink href={cancelTo}>{cancel}</ButtonLink>
        </div>
      </div>
    </AccountForm>
  );
}
