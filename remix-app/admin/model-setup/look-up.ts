import type { AppLoadContext } from "@remix-run/node";
import type { ProviderListing } from "#shared/provider-setup.ts";
import { runInWorker } from "../../http/run-in-worker.ts";
import { formatPriceUsd } from "../labels.ts";
import type { ComparedPrices } from "../prices/compare-files.ts";
import { downloadConfigured } from "../prices/download.ts";
import type { ProposedLimits } from "../prices/limits.ts";
import { type PriceClass, priceClasses, UnreadablePrices } from "../prices/price-source.ts";
import { type ProposedPrice, type RoutePrices, stripTrailingZeros } from "../prices/proposal.ts";
import { namesFromProviders } from "../prices/source-names.ts";
import type { InfrastructureAdmin } from "../require-admin.ts";
import { chosenProvider, listChosenProviders, listRoutes, priceField, type Typed } from "./fields.ts";

interface LookUp {
  /** The form with its empty amounts and limits filled in. */
  typed: Typed;
  /** What the sources state, by field. */
  notes: Record<string, string>;
  /** The result, one sentence a line. */
  lines: string[];
}

/**
 * Looks up the prices and limits of the typed routes in the configured price files.
 * @throws Response 429 while other files are being read
 */
export async function lookUpPrices(
  { env, requestId }: Pick<AppLoadContext, "env" | "requestId">,
  { admin, typed, listing }: { admin: InfrastructureAdmin; typed: Typed; listing: ProviderListing | null },
): Promise<LookUp> {
  const unchanged = (message: string) => ({ typed, notes: {}, lines: [message] });
  const routes = readRoutes(typed);
  if (routes.length === 0) return unchanged("Enter a provider and its model name, then look up the prices.");
  try {
    const files = await downloadConfigured(env.PRICE_SOURCE_URLS);
    const names = namesFromProviders(listing?.providers ?? []);
    const input = { files, routes, names };
    const compared = await runInWorker<ComparedPrices>("comparePriceFiles", { input, owner: admin.id, requestId });
    return "error" in compared ? unchanged(compared.error) : fillIn(typed, compared);
  } catch (error) {
    if (error instanceof UnreadablePrices) return unchanged(error.message);
    throw error;
  }
}

/** Returns the routes without prices, so that each price in the files counts as new. */
function readRoutes(typed: Typed): RoutePrices[] {
  const tokens = (name: string) => (/^[1-9]\d{0,9}$/.test(typed[name] ?? "") ? Number(typed[name]) : null);
  const limits = {
    contextWindow: tokens("contextWindow"),
    outputLimit: tokens("outputLimit"),
    defaultOutputLimit: tokens("defaultOutputLimit"),
  };
  const providers = listChosenProviders(typed);
  return listRoutes(typed).flatMap((route) => {
    const [providerId, providerModel = ""] = [chosenProvider(route), route.providerModel?.trim()];
    if (providerModel === "" || !providers.includes(providerId)) return [];
    const model = { model: "", displayName: "", limits: typed.kind === "chat" ? limits : null };
    return [{ ...model, providerId, providerModel, prices: [] }];
  });
}

/** Fills in the empty fields on which the sources agree, and notes what they state about the others. */
export function fillIn(typed: Typed, { prices, findings }: ComparedPrices): LookUp {
  const filled: Record<string, string> = { ...typed };
  const notes: Record<string, string> = {};
  const { sources, missing, unpriced, limits } = findings;
  const isUsual = ({ serviceTier, minInputTokens }: ProposedPrice) => serviceTier === "default" && minInputTokens === 0;
  for (const price of prices.filter(isUsual)) {
    for (const name of priceClasses) {
      const field = priceField(price.providerId, name);
      const stated = readOffers(price, { name, sources });
      if (stated.length === 0) continue;
      const amounts = new Set(stated.flatMap(({ usd }) => (usd === null ? [] : [stripTrailingZeros(usd)])));
      const [only] = amounts;
      const current = stripTrailingZeros((filled[field] ?? "").trim());
      if (current === "" && only !== undefined && amounts.size === 1) {
        filled[field] = only;
        const origins = stated.filter(({ usd }) => usd !== null).map(({ source }) => source);
        notes[field] = `From ${origins.join(" and ")}.`;
      } else if (amounts.size !== 1 || current !== only) {
        notes[field] = `${stated.map(({ text }) => text).join(", ")}.`;
      }
    }
  }
  const [proposed] = limits;
  const limitLines = proposed ? fillInLimits(filled, proposed) : [];
  const from = sources.join(" and ");
  const others = prices.filter((price) => !isUsual(price)).map(describeTier);
  return {
    typed: filled,
    notes,
    lines: [
      Object.keys(notes).length > 0
        ? `Compared with ${from}. Empty amounts are filled in; differing ones are next to their fields. Nothing is saved yet.`
        : `Compared with ${from}: there is nothing to fill in.`,
      ...limitLines,
      ...missing.map(
        ({ providerId, providerModel, name }) =>
          `${providerId}: ${name}/${providerModel} isn’t in ${sources.join(" or ")}.`,
      ),
      ...unpriced.map(
        ({ providerId, source, fields }) =>
          `${providerId}: ${source} has charges that prices here don’t support (${fields.join(", ")}).`,
      ),
      ...(others.length > 0
        ? [
            `The files also have prices for ${others.join(", ")}. Once the model is saved, add them under Price proposals.`,
          ]
        : []),
    ],
  };
}

function readOffers(
  { offered }: ProposedPrice,
  { name, sources }: { name: PriceClass; sources: readonly string[] },
): { source: string; usd: string | null; text: string }[] {
  return offered.flatMap((offers, index) => {
    const [offer, source = ""] = [offers[name], sources[index]];
    if (!offer) return [];
    const { usd, note } = offer;
    return [{ source, usd, text: `${source}: ${usd === null ? (note ?? "no price") : formatPriceUsd(usd)}` }];
  });
}

/** Fills in the limits that are empty. Returns a line that names them. */
function fillInLimits(filled: Record<string, string>, proposed: ProposedLimits): string[] {
  const labels = {
    contextWindow: "context window",
    outputLimit: "output limit",
    defaultOutputLimit: "default output limit",
  } as const;
  const names = (Object.keys(labels) as (keyof typeof labels)[]).filter(
    (name) => proposed[name] !== null && (filled[name] ?? "").trim() === "",
  );
  for (const name of names) filled[name] = String(proposed[name]);
  return names.length > 0 ? [`Filled in from the files: ${names.map((name) => labels[name]).join(", ")}.`] : [];
}

function describeTier({ providerId, serviceTier, minInputTokens }: ProposedPrice): string {
  const tier = serviceTier === "default" ? "" : `${serviceTier} tier`;
  const size = minInputTokens === 0 ? "" : `from ${minInputTokens.toLocaleString("en")} tokens`;
  return `${providerId} (${[tier, size].filter(Boolean).join(", ")})`;
}
