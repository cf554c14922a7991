import { Fragment } from "react";
import { isoCurrencies } from "#shared/iso-currencies.ts";
import { AccountForm } from "../../ui/account-form.tsx";
import { Button, ButtonLink } from "../../ui/button.tsx";
import { ErrorSummary } from "../../ui/error-summary.tsx";
import { Field, Select } from "../../ui/field.tsx";
import { AppSelect } from "./app-select.tsx";
import type { LinkedApp } from "./invoice-entry.ts";
import { type InvoiceErrors, type InvoiceField, invoiceFields, type TypedInvoice } from "./invoice-facts.ts";

type Texts = { label: string; hint: string; type?: "date"; inputMode?: "decimal"; required?: boolean };

const texts: Record<Exclude<InvoiceField, "appId" | "kind" | "currency">, Texts> = {
  provider: { label: "Provider", hint: "As written in runs and imported costs, for example openai.", required: true },
  accountId: {
    label: "Account",
    hint: "The account ID as in your imported costs, such as proj_1. Leave empty if the invoice isn’t for one account.",
  },
  reference: { label: "Reference", hint: "The invoice number, such as INV-2026-01.", required: true },
  replaces: {
    label: "Replaces",
    hint: "Optional. The reference of the recorded invoice that this one corrects. The corrected invoice no longer counts.",
  },
  netAmount: {
    label: "Net amount",
    hint: "Before tax, with a decimal point and without commas, such as 1234.56. This amount is compared with the costs.",
    inputMode: "decimal",
  },
  taxAmount: {
    label: "Tax",
    hint: "0 if the invoice states none. Enter two of the three amounts, or all to have them checked. In US dollars, the net amount is enough.",
    inputMode: "decimal",
  },
  totalAmount: { label: "Total", hint: "The net amount and the tax.", inputMode: "decimal" },
  exchangeRate: {
    label: "Exchange rate",
    hint: "The US dollars for one unit of the currency, such as 1.0825. If empty, the rate with which this provider’s costs of the period were imported.",
    inputMode: "decimal",
  },
  issuedOn: { label: "Issued on", hint: "The day on the invoice.", type: "date", required: true },
  periodStart: {
    label: "Period’s first day",
    hint: "Optional. The amount is split evenly over the days of the period. Without a period, it counts in the month of issue.",
    type: "date",
  },
  periodEnd: {
    label: "Period’s last day",
    hint: "Optional. If empty, the last day of the same month. The first and last day are both included.",
    type: "date",
  },
};

/** Renders the fields of an invoice with the typed values. */
export function InvoiceEntryForm({
  apps,
  typed,
  errors,
  cancelTo,
}: {
  /** Null for the platform's own invoices, which belong to no app. */
  apps: readonly LinkedApp[] | null;
  typed: Partial<TypedInvoice>;
  errors: InvoiceErrors;
  cancelTo: string;
}) {
  return (
    <AccountForm noValidate className="max-w-108 space-y-5">
      <ErrorSummary
        id="invoice-error"
        fields={Object.fromEntries(invoiceFields.map((field) => [field, errors[field]]))}
      />
      <input type="hidden" name="shownRate" value={`${typed.currency || "USD"} ${typed.exchangeRate ?? ""}`} />
      {apps ? (
        <AppSelect apps={apps} hint="The app that the invoice is for." chosen={typed.appId} error={errors.appId} />
      ) : null}
      <Select name="kind" label="Kind" error={errors.kind} defaultValue={typed.kind || "invoice"}>
        <option value="invoice">Invoice</option>
        <option value="credit_note">Credit note: its amount is subtracted</option>
      </Select>
      {Object.entries(texts).map(([name, field]) => (
        <Fragment key={name}>
          {name === "netAmount" ? <CurrencySelect typed={typed} errors={errors} /> : null}
          <Field
            name={name}
            {...field}
            autoComplete="off"
            autoCapitalize="none"
            spellCheck={false}
            defaultValue={typed[name as InvoiceField]}
            error={errors[name as InvoiceField]}
          />
        </Fragment>
      ))}
      <div className="flex flex-wrap gap-3">
        <Button name="step" value="review">
          Review invoice
        </Button>
        <ButtonLink href={cancelTo}>Cancel</ButtonLink>
      </div>
    </AccountForm>
  );
}

const currencyNames = new Intl.DisplayNames("en", { type: "currency" });

function CurrencySelect({ typed, errors }: { typed: Partial<TypedInvoice>; errors: InvoiceErrors }) {
  return (
    <Select
      name="currency"
      label="Currency"
      hint="The currency of the invoice."
      error={errors.currency}
      defaultValue={typed.currency || "USD"}
    >
      {isoCurrencies.map((code) => (
        <option key={code} value={code}>
          {code} – {currencyNames.of(code)}
        </option>
      ))}
    </Select>
  );
}
