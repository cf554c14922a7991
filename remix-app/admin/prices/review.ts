import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { utcTime } from "#shared/utc-time.ts";
import { reasonedChangeSchema } from "../confirmation.ts";
import { applyConsoleChange, type ConsoleChange } from "../console-change.ts";
import type { InfrastructureAdmin } from "../require-admin.ts";
import { maxReviewed } from "./compare-files.ts";
import { type PriceClass, priceClasses, priceLabels } from "./price-source.ts";
import { currentUsd, type ProposedPrice, proposedPriceSchema, stripTrailingZeros } from "./proposal.ts";

/** The sources and prices that the review page shows. A draft keeps them until the chosen prices are applied. */
export const reviewedPricesSchema = z.object({
  sources: z.array(z.enum(["models.dev", "LiteLLM"])).max(2),
  prices: z.array(proposedPriceSchema).max(maxReviewed),
});
export type ReviewedPrices = z.output<typeof reviewedPricesSchema>;

export const reviewSchema = reasonedChangeSchema.extend({
  from: z
    .literal("")
    .transform(() => null)
    .or(
      z
        .string()
        .transform((text) => `${text}:00Z`)
        .refine((text) => utcTime.safeParse(text).success, "Enter a day and a time, or leave it empty"),
    ),
});

type SelectedPrice = Pick<ProposedPrice, "model" | "providerId" | "serviceTier" | "minInputTokens" | "latest"> &
  Record<PriceClass, string | null>;

/** Names the field that chooses the source of all prices in a row. */
export const getSourceFieldName = (row: number) => `take${row}`;
/** Returns the name of the checkbox that applies one source's price for one price class of a row. */
export const getPriceFieldName = (row: number, { name, source }: { name: PriceClass; source: number }) =>
  `pick${row}_${name}_${source}`;

/**
 * Reads which prices were chosen. In a changed price row, amounts that were not chosen keep their current values.
 * @returns the changed rows, or a message that says what to correct
 */
export function readSelection(
  { prices }: ReviewedPrices,
  form: ReadonlyMap<string, unknown>,
): { chosen: SelectedPrice[] } | { fault: string } {
  const chosen: SelectedPrice[] = [];
  for (const [row, price] of prices.entries()) {
    const title = `${price.model} through ${price.providerId}`;
    const all = form.get(getSourceFieldName(row));
    let hasSelection = false;
    const amounts = { ...price.current } as Partial<Record<PriceClass, string | null>>;
    for (const name of priceClasses) {
      const selected = price.offered.flatMap((_, source) =>
        form.has(getPriceFieldName(row, { name, source })) ? [source] : [],
      );
      if (selected.length > 1) return { fault: `${title}: choose one source for ${priceLabels[name]}.` };
      const source = selected[0] ?? (all ? Number(all) : undefined);
      const usd = source === undefined ? undefined : price.offered[source]?.[name]?.usd;
      if (!usd) continue;
      amounts[name] = usd;
      hasSelection = true;
    }
    const changed = { ...noAmounts, ...amounts };
    const isSame = priceClasses.every((name) => sameUsd(currentUsd(changed, name), currentUsd(price.current, name)));
    if (!hasSelection || isSame) continue;
    if (price.scheduled) return { fault: `${title}: a later price is scheduled. Change it on the model’s page.` };
    if (changed.inputUsd === null || changed.outputUsd === null) {
      return { fault: `${title}: a new price needs an input and an output price. Choose both.` };
    }
    const { model, providerId, serviceTier, minInputTokens, latest } = price;
    chosen.push({ model, providerId, serviceTier, minInputTokens, latest, ...changed });
  }
  return chosen.length > 0 ? { chosen } : { fault: "Choose at least one price that differs." };
}

const noAmounts = Object.fromEntries(priceClasses.map((name) => [name, null])) as Record<PriceClass, null>;

function sameUsd(one: string | null, other: string | null): boolean {
  return one === null || other === null ? one === other : stripTrailingZeros(one) === stripTrailingZeros(other);
}

/** Adds the chosen prices in one transaction. */
export function addProposedPrices(
  context: AppLoadContext,
  { admin, ...change }: { admin: InfrastructureAdmin; prices: SelectedPrice[]; from: string | null; reason: string },
): Promise<ConsoleChange> {
  return applyConsoleChange(context, { admin, name: "add_proposed_prices", change, refusals });
}

const compareAgainText = "Nothing was changed. Compare the prices again.";
const refusals = {
  not_found: { status: 404, message: `One of the models no longer exists. ${compareAgainText}` },
  no_route: { status: 409, message: `One of the routes no longer exists. ${compareAgainText}` },
  past: { status: 400, message: "Prices can’t take effect in the past. Choose another time. Nothing was changed." },
  taken: { status: 409, message: "Another price begins at the same time. Choose another time. Nothing was changed." },
  scheduled: { status: 409, message: `A later price of one of the models has been scheduled. ${compareAgainText}` },
  too_many: { status: 400, message: "Choose 1 to 500 prices." },
} as const;
