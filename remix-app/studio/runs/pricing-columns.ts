import { add, formatDecimal, parseDecimal } from "#shared/decimal.ts";
import { priceItems } from "#shared/money.ts";
import type { CsvColumn } from "../../http/csv.ts";
import { pricingOf } from "./pricing.ts";
import type { PricingLine, RunPricing } from "./pricing-schema.ts";
import type { RunSummary } from "./run-schema.ts";

type Value = string | number | null;

type Item = PricingLine["item"];
type CachedPricing = { pricing: RunPricing; linesByItem: Map<Item, PricingLine[]> };

/** Caches each run's pricing for all columns. */
const pricingCache = new WeakMap<RunSummary, CachedPricing>();
const noLines: readonly PricingLine[] = [];

function pricingFor(run: RunSummary): CachedPricing {
  const cached = pricingCache.get(run);
  if (cached) return cached;
  const pricing = pricingOf(run);
  const found = { pricing, linesByItem: Map.groupBy(pricing.lines, ({ item }) => item) };
  pricingCache.set(run, found);
  return found;
}

const linesOf = (run: RunSummary, item: Item) => pricingFor(run).linesByItem.get(item) ?? noLines;

function countOf(lines: readonly PricingLine[]): Value {
  return lines.reduce((total, { count }) => total + (count ?? 0), 0);
}

/** Returns the unit price that all lines share, or null if their prices differ. */
function priceOf(lines: readonly PricingLine[]): Value {
  const [first] = lines;
  return first && lines.every(({ unitPriceUsd }) => unitPriceUsd === first.unitPriceUsd) ? first.unitPriceUsd : null;
}

function amountOf(lines: readonly PricingLine[]): Value {
  const amounts = lines.flatMap(({ amountUsd }) => amountUsd ?? []);
  if (amounts.length <= 1) return amounts[0] ?? null;
  return formatDecimal(amounts.map(parseDecimal).reduce(add));
}

const column = (name: string, value: CsvColumn<RunSummary>["value"]): CsvColumn<RunSummary> => ({ name, value });

/** The pricing columns of a runs file. Columns that end in `_amount_usd` add up to `cost_usd`. */
export const pricingColumns: readonly CsvColumn<RunSummary>[] = [
  ...priceItems.flatMap((item) => [
    column(`${item}_charged`, (run) => countOf(linesOf(run, item))),
    column(`${item}_unit_price_usd`, (run) => priceOf(linesOf(run, item))),
    column(`${item}_amount_usd`, (run) => amountOf(linesOf(run, item))),
  ]),
  ...(["stated_cost", "not_itemised", "rounding"] as const).map((item) =>
    column(`${item}_amount_usd`, (run) => amountOf(linesOf(run, item))),
  ),
  column("markup", (run) => pricingFor(run).pricing.markup),
  column("pricing_notes", (run) => pricingFor(run).pricing.notes.join(" ")),
];
