import type { ReactNode } from "react";
import { AccountForm } from "../../../ui/account-form.tsx";
import { Button } from "../../../ui/button.tsx";
import { Card } from "../../../ui/card.tsx";
import { ErrorSummary } from "../../../ui/error-summary.tsx";
import { Field } from "../../../ui/field.tsx";
import { type ImportErrors, maxFileMiB } from "./import-choices.ts";

/** The files that can be imported, under the names that their providers use. */
const sources = [
  ["OpenAI", "Costs as CSV from the dashboard, or as JSON from the costs API"],
  ["Anthropic", "Cost report as CSV from the console, or as JSON from the API"],
  ["AWS", "FOCUS data export as CSV (recommended), or Cost and Usage Report (CUR)"],
  ["Google Cloud", "FOCUS view of the BigQuery export as CSV (recommended), or the billing export as CSV or JSON"],
  ["Azure", "FOCUS cost export as CSV (recommended), or cost and usage details"],
  ["Others", "FOCUS 1.0 or later, as CSV"],
] as const;

/**
 * Renders a form to upload a provider's costs.
 * @param props.children further fields, such as the app that the costs are for
 */
export function CostUploadCard({ errors, children }: { errors: ImportErrors; children?: ReactNode }) {
  return (
    <Card
      title="Upload a cost file"
      lead="You’ll see what the file contains and what it changes. Nothing is stored until you confirm."
    >
      <div className="grid gap-x-10 gap-y-6 lg:grid-cols-2">
        <AccountForm encType="multipart/form-data" className="space-y-5">
          <ErrorSummary id="upload-error" fields={errors} />
          {children}
          <Field
            name="upload"
            type="file"
            accept=".csv,.json,.jsonl,.ndjson,.gz,text/csv,application/json,application/gzip"
            label="Cost file"
            hint={`CSV or JSON, optionally compressed as .gz. At most ${maxFileMiB} MiB.`}
            required
            error={errors.upload}
          />
          <Button>Review file</Button>
        </AccountForm>
        <div className="space-y-3">
          <h3 className="font-medium">Files you can import</h3>
          <dl className="space-y-2 text-small">
            {sources.map(([provider, file]) => (
              <div key={provider} className="grid gap-x-4 min-[26rem]:grid-cols-[7rem_1fr]">
                <dt className="font-medium">{provider}</dt>
                <dd className="text-muted">{file}</dd>
              </div>
            ))}
          </dl>
          <p className="text-muted text-small">
            For larger files or reports in several parts, ask the platform’s operator to run{" "}
            <code>npm run gatehouse -- import-costs</code>.
          </p>
        </div>
      </div>
    </Card>
  );
}
