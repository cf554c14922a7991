import { AccountForm } from "../../ui/account-form.tsx";
import { Button } from "../../ui/button.tsx";
import { Card } from "../../ui/card.tsx";
import { ErrorSummary } from "../../ui/error-summary.tsx";
import { Field } from "../../ui/field.tsx";
import type { FailedChange } from "../failed-change.ts";
import { maxSourceSizeText } from "./read-source.ts";

/** Renders a form to upload price files or to read the configured URLs. */
export function UploadCard({ configured, failed }: { configured: string[]; failed: FailedChange | undefined }) {
  return (
    <Card
      title="Compare with price files"
      lead="Upload api.json from models.dev, model_prices_and_context_window.json from LiteLLM, or both. Nothing changes until you apply prices."
    >
      <AccountForm encType="multipart/form-data" className="max-w-120 space-y-4">
        <ErrorSummary id="upload-error" form={failed?.message} />
        <Field
          name="first"
          type="file"
          accept=".json,application/json"
          label="Price file"
          hint={`At most ${maxSourceSizeText}.`}
        />
        <Field
          name="second"
          type="file"
          accept=".json,application/json"
          label="Second price file"
          hint="Optional. The file from the other source."
        />
        <div className="flex flex-wrap gap-3">
          <Button name="source" value="files">
            Compare prices
          </Button>
          {configured.length > 0 ? (
            <Button name="source" value="configured" variant="secondary">
              Read {configured.join(" and ")}
            </Button>
          ) : null}
        </div>
      </AccountForm>
    </Card>
  );
}
