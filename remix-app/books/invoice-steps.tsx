import { formatDecimal, parseDecimal } from "#shared/decimal.ts";
import { ChangeForm } from "../admin/change-form.tsx";
import { formatDay } from "../http/date-text.ts";
import { DocumentField } from "../studio/invoices/document-card.tsx";
import { InvoiceComparison, OtherInvoicesNotice } from "../studio/invoices/invoice-comparison.tsx";
import {
  blankInvoice,
  invoiceFacts,
  kindNames,
  type TypedInvoice,
  unconfirmedInvoice,
} from "../studio/invoices/invoice-facts.ts";
import { AccountForm } from "../ui/account-form.tsx";
import { Button, ButtonLink } from "../ui/button.tsx";
import { Card, Panel } from "../ui/card.tsx";
import { ErrorSummary } from "../ui/error-summary.tsx";
import { FactList } from "../ui/facts.tsx";
import { type Book, comparedCosts } from "./book.ts";
import type { BookInvoiceEntry } from "./enter-invoice.ts";

/** Shows the exact invoice to be recorded, how it compares with the other costs of its period, and how to record it. */
export function InvoiceReviewCards({
  entry,
  book,
}: {
  entry: Extract<BookInvoiceEntry, { at: "review" }>;
  book: Book;
}) {
  const { draft, review } = entry;
  const { reviewedAt, appName, comparison } = review;
  const invoice = { ...blankInvoice, ...draft, appName, reviewedAt };
  const kind = kindNames[invoice.kind].toLowerCase();
  const facts = [...invoiceFacts(invoice), ...rateFacts(entry)];
  return (
    <>
      {entry.isUnconfirmed && !entry.failed ? <ErrorSummary id="invoice-error" form={unconfirmedInvoice} /> : null}
      <OtherInvoicesNotice invoice={invoice} comparison={comparison} />
      <Card title="How it compares" lead={`This ${kind} against ${comparedCosts(book)} for its period.`}>
        <InvoiceComparison invoice={invoice} comparison={comparison} />
      </Card>
      {book.isPlatform ? (
        <>
          <Card title="What will be recorded">
            <FactList facts={facts} />
          </Card>
          <Panel>
            <ChangeForm
              effects={[
                `The ${kind} is added to the platform’s books. It can’t be changed or deleted afterward.`,
                ...(invoice.kind === "credit_note" ? ["Its amount is subtracted."] : []),
                ...(invoice.replaces === null ? [] : [`${invoice.replaces} will no longer be counted.`]),
                "No workspace is charged, and no workspace’s own costs or invoices change.",
              ]}
              failed={entry.failed}
              submit={`Record ${kind}`}
              cancelTo={book.invoices}
              hidden={{ ...entry.typed, reviewedAt }}
              edit="Edit"
            />
          </Panel>
        </>
      ) : (
        <Card
          title="What will be recorded"
          lead="It can’t be changed or deleted afterward. Runs and credits aren’t affected."
        >
          <div className="space-y-5">
            <FactList facts={facts} />
            <AccountForm encType="multipart/form-data" className="space-y-5">
              <ErrorSummary id="attachment-error" fields={{ document: entry.documentError }} />
              <TypedFields typed={entry.typed} />
              <input type="hidden" name="reviewedAt" value={reviewedAt} />
              <div className="max-w-108">
                <DocumentField error={entry.documentError} />
              </div>
              <div className="flex flex-wrap gap-3">
                <Button name="step" value="record">
                  Record {kind}
                </Button>
                <Button name="step" value="edit" variant="secondary">
                  Edit
                </Button>
              </div>
            </AccountForm>
          </div>
        </Card>
      )}
    </>
  );
}

/** Compares the invoice's exchange rate with the rate of the imported costs, and says who entered that rate. */
function rateFacts({
  draft: { currency, exchangeRate },
  importRate,
}: Extract<BookInvoiceEntry, { at: "review" }>): [term: string, text: string][] {
  if (currency === undefined || currency === "USD") return [];
  const term = "Rate of the imported costs";
  if (!importRate) return [[term, "None for this provider, currency and period"]];
  const { rate, import: file } = importRate;
  const person = file.by === "operator" ? "The platform’s operator" : (file.name ?? "A deleted account");
  const entered = `${person} entered ${rate} for ${file.file} on ${formatDay(file.importedAt)}`;
  const isEqual = formatDecimal(parseDecimal(rate)) === exchangeRate;
  return [[term, `${isEqual ? "The same" : "Different"}: ${entered}`]];
}

const names: Record<string, string> = {
  kind: "the kind",
  replaces: "what it replaces",
  amountUsd: "the amount",
  currency: "the currency",
  exchangeRate: "the exchange rate",
  netAmount: "the net amount",
  taxAmount: "the tax",
  totalAmount: "the total",
  issuedOn: "the day of issue",
  periodStart: "the period’s first day",
  periodEnd: "the period’s last day",
};

/** Shows an invoice that is already recorded with other values. Compares both versions and explains what to do. */
export function InvoiceConflictCards({
  entry: { typed, draft, stored, differs },
  book,
}: {
  entry: Extract<BookInvoiceEntry, { at: "conflict" }>;
  book: Book;
}) {
  const what = new Intl.ListFormat("en").format(differs.map((field) => names[field] ?? field));
  const entered = { ...blankInvoice, ...draft, appName: stored.appName, reviewedAt: "" };
  return (
    <>
      <ErrorSummary
        id="invoice-conflict"
        form={`Invoice ${stored.reference} is already recorded, but ${what} ${differs.length === 1 ? "differs" : "differ"}. Your entry wasn’t recorded.`}
      />
      <div className="grid gap-6 sm:grid-cols-2">
        <Card title="Recorded">
          <FactList facts={invoiceFacts(stored)} />
        </Card>
        <Card title="What you entered">
          <FactList facts={invoiceFacts(entered).filter(([term]) => term !== "Reviewed at")} />
        </Card>
      </div>
      <Card title="What to do">
        <div className="space-y-5">
          <ul className="max-w-prose list-disc space-y-1 pl-5">
            <li>If the recorded invoice is right, there’s nothing to do.</li>
            <li>
              If the provider corrected it, enter the corrected invoice with its own reference, and enter{" "}
              {stored.reference} under “Replaces”.
            </li>
            <li>If your invoice is for another account, select “Edit what I entered” and change the account.</li>
            <li>
              If the recorded invoice is wrong, enter it again with a new reference, such as{" "}
              <code className="wrap-anywhere">{`${stored.reference}.corrected`.slice(0, 128)}</code>, and enter{" "}
              {stored.reference} under “Replaces”. Only the new one then counts.
            </li>
          </ul>
          <AccountForm className="flex flex-wrap gap-3">
            <TypedFields typed={typed} />
            <Button name="step" value="edit" variant="secondary">
              Edit what I entered
            </Button>
            <ButtonLink href={`${book.invoices}/${stored.id}`}>View the recorded invoice</ButtonLink>
          </AccountForm>
        </div>
      </Card>
    </>
  );
}

function TypedFields({ typed }: { typed: TypedInvoice }) {
  return Object.entries(typed).map(([name, value]) => <input key={name} type="hidden" name={name} value={value} />);
}
