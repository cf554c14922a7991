import { add, formatDecimal, parseDecimal } from "#shared/decimal.ts";
import { priceItems } from "#shared/money.ts";
import type { CsvColumn } from "../../http/csv.ts";
import { pricingOf } from "./pricing.ts";
import type { PricingLine, RunPricing } from "./pricing-schema.ts";
import type { RunSummary } from "./run-schema.ts";

type Value = string | number | null;

/** Caches each run's pricing for all columns. */
const priced = new WeakMap<RunSummary, RunPricing>();

function pricingFor(run: RunSummary): RunPricing {
  const known = priced.get(run) ?? pricingOf(run);
  priced.set(run, known);
  return known;
}

const linesOf = (run: RunSummary, item: PricingLine["item"]) =>
  pricingFor(run).lines.filter((line) => line.item === item);

function countOf(lines: readonly PricingLine[]): Value {
  return lines.reduce((total, { count }) => total + (count ?? 0), 0);
}

/** Returns the unit price that all lines share, or null if their prices differ. */
function priceOf(lines: readonly PricingLine[]): Value {
  const [price, ...others] = new Set(lines.map(({ unitPriceUsd }) => unitPriceUsd));
  return others.length === 0 ? (price ?? null) : null;
}

function amountOf(lines: readonly PricingLine[]): Value {
  const amounts = lines.flatMap(({ amountUsd }) => amountUsd ?? []);
  if (amounts.length === 0) return null;
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
  column("markup", (run) => pricingFor(run).markup),
  column("pricing_notes", (run) => pricingFor(run).notes.join(" ")),
];
