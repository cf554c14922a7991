import type { ReactNode } from "react";
import { formatExactDateTime } from "../../http/date-text.ts";
import { AccountForm } from "../../ui/account-form.tsx";
import { Button, ButtonLink } from "../../ui/button.tsx";
import { Card } from "../../ui/card.tsx";
import { ErrorSummary } from "../../ui/error-summary.tsx";
import { FactList } from "../../ui/facts.tsx";
import { Field } from "../../ui/field.tsx";
import type { InvoiceRecord } from "../costs/provider-import-schema.ts";
import { maxDocumentMiB } from "./invoice-facts.ts";

/** Shows an invoice's original document, or the form that attaches it. */
export function DocumentCard({
  document,
  attachedBy,
  href,
  error,
  children,
}: {
  document: InvoiceRecord["document"];
  attachedBy: string | null;
  /** The address of the document. */
  href: string;
  error: string | undefined;
  /** Further fields of the form, such as the reason. */
  children?: ReactNode;
}) {
  if (document) {
    const { fileName, sizeBytes, sha256, attachedAt } = document;
    return (
      <Card
        id="document"
        title="Original document"
        lead="The document can’t be changed or replaced."
        action={<ButtonLink href={href}>Download PDF</ButtonLink>}
      >
        <ErrorSummary id="attachment-error" form={error} />
        <FactList
          facts={[
            ["File", fileName],
            ["Size", `${sizeBytes.toLocaleString("en")} bytes`],
            ["SHA-256", sha256],
            ["Attached by", attachedBy ?? "A deleted account"],
            ["Attached at", formatExactDateTime(attachedAt)],
          ]}
        />
      </Card>
    );
  }
  return (
    <Card
      id="document"
      title="Original document"
      lead="Attach the provider’s PDF, so that others can check this record. It can’t be changed or replaced afterward."
    >
      <AccountForm noValidate encType="multipart/form-data" className="max-w-108 space-y-5">
        <ErrorSummary id="attachment-error" fields={{ document: error }} />
        <DocumentField error={error} required />
        {children}
        <Button>Attach document</Button>
      </AccountForm>
    </Card>
  );
}

/** Renders the input for an invoice's original document. */
export function DocumentField({ error, required = false }: { error: string | undefined; required?: boolean }) {
  return (
    <Field
      name="document"
      type="file"
      accept=".pdf,application/pdf"
      label="Original document"
      hint={`${required ? "" : "Optional. "}A PDF of at most ${maxDocumentMiB} MiB.`}
      required={required}
      error={error}
    />
  );
}
