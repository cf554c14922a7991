import { externalIdMessage, isExternalId, isLabel } from "#shared/labels.ts";
import { type CostFile, type ProviderCosts, UnreadableCostFile } from "../files/cost-file.ts";
import {
  type CostImportDocument,
  costImportDocument,
  currenciesToConvert,
  rateSchema,
  type ServiceTotal,
  serviceTotals,
} from "../files/import-document.ts";

/** The choices that a person made for a file, as typed. */
export interface ImportChoices {
  /** The index of the chosen entry in the file's `providers`. */
  source: number;
  provider: string;
  /** The account for lines that name no account. */
  account: string;
  rates: Record<string, string>;
  /** Indexes into the result of {@link listServicesToChoose}, or null for all services. */
  services: readonly number[] | null;
  /** Whether to set imported days to 0 if the file lacks them. */
  clear: boolean;
}

export type ImportErrors = Record<string, string>;

/** Returns the name of the form field for a currency's rate. */
export function rateField(currency: string): string {
  return `rate_${currency}`;
}

export function serviceField(position: number): string {
  return `service_${position}`;
}

/** The maximum number of services to choose from. A bill with more is imported with all of them. */
export const maxListedServices = 500;

/** The maximum size of an uploaded file, in MiB. */
export const maxFileMiB = 8;
export const maxFileBytes = maxFileMiB * 1024 * 1024;
/** The limits of an import's forms, which have a file, or a checkbox for each listed service. */
export const importFormLimits = { maxBytes: maxFileBytes + 64 * 1024, maxFields: maxListedServices + 100, files: true };

/** Returns a bill's services, the largest amount first. Returns none if there are too many to choose from. */
export function listServicesToChoose(bill: ProviderCosts): ServiceTotal[] {
  const services = serviceTotals(bill);
  if (services.length > maxListedServices) return [];
  return services.toSorted((one, other) => sizeOf(other) - sizeOf(one));
}

/** Reads the choices from the review form. After an upload or a change of provider, selects all services. */
export function readChoices(form: ReadonlyMap<string, string>, { providers }: CostFile): ImportChoices {
  const text = (name: string) => String(form.get(name) ?? "").trim();
  const source = Math.min(Math.max(Number.parseInt(text("source"), 10) || 0, 0), providers.length - 1);
  const chosen = providers[source];
  const reviewed = form.get("reviewedSource") === String(source);
  const listed = reviewed && chosen ? listServicesToChoose(chosen) : [];
  const account = text("account");
  const rates = Object.fromEntries((chosen?.currencies ?? []).map((currency) => [currency, text(rateField(currency))]));
  return {
    source,
    provider: reviewed ? text("provider").toLowerCase() : (chosen?.provider ?? ""),
    account: account === "" && !reviewed ? "default" : account,
    rates,
    services: reviewed && listed.length > 0 ? [...listed.keys()].filter((at) => form.has(serviceField(at))) : null,
    clear: form.has("clear"),
  };
}

/** Builds the import document from a file and the choices, or returns the errors in the choices. */
export function buildDocument(
  file: CostFile,
  { source, provider, account, rates, services, clear }: ImportChoices,
): { document: CostImportDocument } | { errors: ImportErrors } {
  const bill = file.providers[source];
  if (!bill) return { errors: { form: "Choose a provider." } };
  const named = services ? listServicesToChoose(bill) : [];
  const wanted = services && new Set(services.map((at) => named[at]?.service ?? null));
  const chosen = wanted ? { services: wanted } : {};
  const errors: ImportErrors = {
    ...(isLabel(provider) ? {} : { provider: "Use up to 128 letters, digits, dots, underscores, colons and hyphens" }),
    ...(needsAccount(bill) && !isExternalId(account) ? { account: externalIdMessage } : {}),
    ...Object.fromEntries(currenciesToConvert(bill, chosen.services).flatMap((code) => rateError(code, rates[code]))),
  };
  if (Object.keys(errors).length > 0) return { errors };
  try {
    return { document: costImportDocument(file, bill, { provider, account, rates, clear, ...chosen }) };
  } catch (error) {
    if (error instanceof UnreadableCostFile) return { errors: { services: error.message } };
    throw error;
  }
}

/** Returns whether any line of a bill lacks an account. */
export function needsAccount({ days }: ProviderCosts): boolean {
  return days.some(({ accountId }) => accountId === null);
}

function rateError(currency: string, rate: string | undefined): [string, string][] {
  return rateSchema.safeParse(rate).success
    ? []
    : [[rateField(currency), `Enter the rate with a decimal point, such as 1.08 US dollars for 1 ${currency}`]];
}

function sizeOf({ amounts }: ServiceTotal): number {
  return Math.max(...amounts.map(({ amount }) => Math.abs(Number(amount))));
}
