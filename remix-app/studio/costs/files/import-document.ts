import { z } from "zod";
import { add, type Decimal, formatDecimal, parseDecimal } from "#shared/decimal.ts";
import { type CostFile, type ProviderCosts, UnreadableCostFile } from "./cost-file.ts";

/** The maximum number of daily totals per import, as in the database. */
export const maxImportDays = 20_000;

/** The maximum numbers of services and of their daily parts per import, as in the database. */
const maxServices = 5_000;
const maxServiceParts = 100_000;

const currencySchema = z.string().regex(/^[A-Z]{3}$/);
const amountText = z.string().regex(/^-?\d{1,15}(?:\.\d{1,40})?$/);

/** USD per unit of a currency, as entered by a person. */
export const rateSchema = z
  .string()
  .trim()
  .regex(/^\d{1,9}(?:\.\d{1,12})?$/, "Enter the rate with a decimal point, such as 1.08")
  .refine((text) => /[1-9]/.test(text), "Enter a rate above 0");

/** The document that the database previews and imports: totals per account and day, in the file's currencies. */
export const costImportDocumentSchema = z.object({
  provider: z.string(),
  format: z.string(),
  fileName: z.string(),
  sha256: z.string().regex(/^[0-9a-f]{64}$/),
  timeZone: z.string(),
  rates: z.record(currencySchema, rateSchema),
  days: z
    .array(
      z.object({
        accountId: z.string(),
        day: z.iso.date(),
        amounts: z.array(z.object({ currency: currencySchema, amount: amountText })).min(1),
        /** The parts of the amounts by service: the position in `services`, the currency and the amount. */
        parts: z.array(z.tuple([z.int(), currencySchema, amountText])).optional(),
      }),
    )
    .max(maxImportDays),
  /** The names of the bill's services. The empty name is for lines that name no service. Without it, no day has parts. */
  services: z.array(z.string()).optional(),
  /** The FOCUS category of services, as the file states it. */
  serviceCategories: z.record(z.string(), z.string()).optional(),
  /** Whether to set days in the file's period to 0 if other files contained them and this file lacks them. */
  clear: z.literal(true).optional(),
});
export type CostImportDocument = z.output<typeof costImportDocumentSchema>;

export type ServiceTotal = { service: string | null; amounts: { currency: string; amount: string }[] };

/** Returns a bill's services by name, with their exact sums per currency. Lines that name no service are under null. */
export function serviceTotals({ days }: ProviderCosts): ServiceTotal[] {
  const services = new Map<string | null, Map<string, Decimal>>();
  for (const { service, currency: code, amount } of days.flatMap(({ amounts }) => amounts)) {
    const sums = services.get(service) ?? new Map<string, Decimal>();
    services.set(service, sums);
    addTo(sums, code, amount);
  }
  return [...services]
    .toSorted(([one], [other]) => (one ?? "").localeCompare(other ?? "", "en"))
    .map(([service, sums]) => ({ service, amounts: amountsOf(sums) }));
}

/** Returns the currencies other than USD that the services use. Each needs a rate. */
export function currenciesToConvert({ days }: ProviderCosts, services?: ReadonlySet<string | null>): string[] {
  const amounts = days.flatMap((day) => day.amounts).filter(({ service }) => services?.has(service) ?? true);
  return [...new Set(amounts.map(({ currency: code }) => code))].filter((code) => code !== "USD").toSorted();
}

export type DocumentChoices = {
  /** The provider's name in imported costs. Defaults to the file's suggestion. */
  provider?: string | undefined;
  /** The account for lines that name no account. */
  account?: string | undefined;
  /** The services to import. Defaults to all. */
  services?: ReadonlySet<string | null> | undefined;
  /** USD per unit of each currency other than USD. */
  rates?: Readonly<Record<string, string>> | undefined;
  /** Whether to set days in the file's period to 0 if other files contained them and this file lacks them. */
  clear?: boolean | undefined;
};

/**
 * Returns the document that imports a provider's costs.
 * @throws UnreadableCostFile if there is nothing to import, or too much for one import
 */
export function costImportDocument(
  { format, fileName, sha256 }: Pick<CostFile, "format" | "fileName" | "sha256">,
  costs: ProviderCosts,
  { provider = costs.provider, account = "default", services, rates = {}, clear }: DocumentChoices = {},
): CostImportDocument {
  const days = new Map<string, DayTotal>();
  const names = new Map<string, number>();
  for (const { accountId, day, amounts } of costs.days) {
    const own = amounts.filter(({ service }) => services?.has(service) ?? true);
    if (own.length === 0) continue;
    const key = JSON.stringify([day, accountId ?? account]);
    const total = days.get(key) ?? { accountId: accountId ?? account, day, sums: new Map(), parts: new Map() };
    days.set(key, total);
    for (const { currency: code, amount, service } of own) {
      addTo(total.sums, code, amount);
      const at = positionOf(names, serviceName(service));
      const part = total.parts.get(at) ?? new Map<string, Decimal>();
      total.parts.set(at, part);
      addTo(part, code, amount);
    }
  }
  if (days.size === 0) throw new UnreadableCostFile("Choose at least one service to import.");
  if (days.size > maxImportDays) {
    throw new UnreadableCostFile(
      `The file has ${days.size.toLocaleString("en")} daily totals. One import can have at most ${maxImportDays.toLocaleString("en")}. Export a shorter range.`,
    );
  }
  const needed = currenciesToConvert(costs, services);
  return {
    provider: provider.toLowerCase(),
    format,
    fileName,
    sha256,
    timeZone: costs.timeZone,
    rates: Object.fromEntries(Object.entries(rates).filter(([code]) => needed.includes(code))),
    ...servicesOf(names, { days, serviceCategories: costs.serviceCategories }),
    ...(clear ? { clear } : {}),
  };
}

type DayTotal = {
  accountId: string;
  day: string;
  sums: Map<string, Decimal>;
  /** Sums per currency, by the position of the service. */
  parts: Map<number, Map<string, Decimal>>;
};

/**
 * Returns the document's days, with the parts by service. Returns only the totals if the bill names no service, or more
 * than the database stores.
 */
function servicesOf(
  names: ReadonlyMap<string, number>,
  {
    days,
    serviceCategories = {},
  }: { days: ReadonlyMap<string, DayTotal>; serviceCategories?: Record<string, string> | undefined },
): Pick<CostImportDocument, "days" | "services" | "serviceCategories"> {
  const totals = [...days.values()];
  const size = totals.flatMap(({ parts }) => [...parts.values()]).reduce((sum, { size: amounts }) => sum + amounts, 0);
  const isNamed = names.size > 1 || !names.has("");
  if (!isNamed || names.size > maxServices || size > maxServiceParts) {
    return { days: totals.map(({ accountId, day, sums }) => ({ accountId, day, amounts: amountsOf(sums) })) };
  }
  const categories = Object.entries(serviceCategories).flatMap(([service, category]) => {
    const name = serviceName(service);
    return names.has(name) ? [[name, category] as const] : [];
  });
  return {
    services: [...names.keys()],
    ...(categories.length > 0 ? { serviceCategories: Object.fromEntries(categories) } : {}),
    days: totals.map(({ accountId, day, sums, parts }) => ({
      accountId,
      day,
      amounts: amountsOf(sums),
      parts: [...parts].flatMap(([at, part]) =>
        amountsOf(part).map(({ currency: code, amount }): Part => [at, code, amount]),
      ),
    })),
  };
}

type Part = [service: number, currency: string, amount: string];

/** Returns a document without its services, for one that is too long with them. */
export function withoutServices({
  services: _,
  serviceCategories: __,
  days,
  ...document
}: CostImportDocument): CostImportDocument {
  return { ...document, days: days.map(({ parts: ___, ...day }) => day) };
}

/** Returns a service's name as one line of text, or an empty text for lines that name no service. */
function serviceName(service: string | null): string {
  return (service ?? "").replace(/[\p{Cc}\s]+/gu, " ").trim();
}

function positionOf(names: Map<string, number>, name: string): number {
  const position = names.get(name) ?? names.size;
  names.set(name, position);
  return position;
}

function addTo(sums: Map<string, Decimal>, code: string, amount: string): void {
  const sum = sums.get(code);
  sums.set(code, sum ? add(sum, parseDecimal(amount)) : parseDecimal(amount));
}

function amountsOf(sums: ReadonlyMap<string, Decimal>): { currency: string; amount: string }[] {
  return [...sums]
    .toSorted(([one], [other]) => (one < other ? -1 : 1))
    .map(([code, amount]) => ({ currency: code, amount: formatDecimal(amount) }));
}
