import { formatDateTime } from "../http/date-text.ts";
import { formatPriceUsd } from "./labels.ts";
import type { ConsoleModel, ModelPrice } from "./models.ts";
import { type PriceClass, priceLabels } from "./prices/price-source.ts";

/** Labels of the fields of models and routes. */
export const fieldLabels = {
  id: "ID",
  displayName: "Name",
  ownedBy: "Owned by",
  contextWindow: "Context window",
  outputLimit: "Output limit",
  defaultOutputLimit: "Default output limit",
  voices: "Voices",
  studioDefault: "Offered to workspaces",
  isDefault: "Default of its kind",
  providerId: "Provider",
  providerModel: "Provider’s model name",
  enabled: "Enabled",
  trustsStatedCost: "Charge the cost the provider reports",
  tierMultipliers: "Tier multipliers",
  firstByteSeconds: "Timeout to the first byte (seconds)",
  idleSeconds: "Timeout between chunks (seconds)",
  totalSeconds: "Total timeout (seconds)",
} as const;

/** Formats multipliers as the form reads them: "flex 0.5, priority 2". */
export function multiplierText(multipliers: Readonly<Record<string, string>>): string {
  return Object.entries(multipliers)
    .map(([tier, times]) => `${tier} ${times}`)
    .join(", ");
}

function valueText(value: unknown): string {
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value === "number") return value.toLocaleString("en");
  if (Array.isArray(value)) return value.join(", ") || "none";
  if (value !== null && typeof value === "object") return multiplierText(value as Record<string, string>) || "none";
  return typeof value === "string" && value !== "" ? value : "none";
}

/** Lists each changed field with its values before and after; for a new record, each field that is set. */
export function fieldChanges(before: object | null, after: object): string[] {
  const [old, now] = [Object(before), Object(after)] as Record<string, unknown>[];
  return Object.entries(fieldLabels).flatMap(([name, label]) => {
    if (!now || !Object.hasOwn(now, name)) return [];
    const [from, to] = [valueText(old?.[name]), valueText(now[name])];
    if (from === to) return [];
    return [before === null ? `${label}: ${to}` : `${label}: from ${from} to ${to}`];
  });
}

export type Amounts = Pick<ModelPrice, PriceClass>;

/** Describes a new price: each amount, when it begins and ends, and which earlier price it replaces. */
export function priceChanges(
  { prices }: Pick<ConsoleModel, "prices">,
  newPrice: Amounts & Pick<ModelPrice, "providerId" | "serviceTier" | "minInputTokens" | "from">,
  now = Date.now(),
): string[] {
  const starts = newPrice.from ? Date.parse(newPrice.from) : now;
  const same = prices.filter(
    ({ providerId, serviceTier, minInputTokens }) =>
      providerId === newPrice.providerId &&
      serviceTier === newPrice.serviceTier &&
      minInputTokens === newPrice.minInputTokens,
  );
  const startOf = ({ from }: ModelPrice) => (from ? Date.parse(from) : Number.NEGATIVE_INFINITY);
  const endOf = ({ until }: ModelPrice) => (until ? Date.parse(until) : Number.POSITIVE_INFINITY);
  const old = same.find((price) => startOf(price) <= starts && starts < endOf(price));
  const [next] = same.filter((price) => startOf(price) > starts).toSorted((a, b) => startOf(a) - startOf(b));
  return [
    `The price takes effect ${newPrice.from ? `on ${formatDateTime(newPrice.from)}` : "when you confirm"} and applies until ${
      next?.from ? `the next price takes effect on ${formatDateTime(next.from)}` : "another price is added"
    }.`,
    old
      ? `It replaces the price in effect since ${old.from ? formatDateTime(old.from) : "the model was added"}.`
      : "It replaces no other price.",
    ...Object.entries(priceLabels).flatMap(([name, label]) => {
      const amount = name as keyof Amounts;
      const [from, to] = [old?.[amount] ?? null, newPrice[amount]];
      if (from === to || (from !== null && to !== null && Number(from) === Number(to))) return [];
      return [
        old
          ? `${label}: from ${amountText(from)} to ${amountText(to)}${formatAmountRatio(from, to)}`
          : `${label}: ${amountText(to)}`,
      ];
    }),
  ];
}

function amountText(amount: string | null): string {
  return amount === null ? "none" : formatPriceUsd(amount);
}

/** Shows the factor if an amount at least doubles or halves, to catch a misplaced decimal point. */
function formatAmountRatio(from: string | null, to: string | null): string {
  const times = Number(to) / Number(from);
  if (!Number.isFinite(times) || times === 0 || (times > 0.5 && times < 2)) return "";
  return ` (${times.toLocaleString("en", { maximumSignificantDigits: 3 })} times as much)`;
}
