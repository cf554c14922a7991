import type { AppLoadContext } from "@remix-run/node";
import { runInWorker } from "../../http/run-in-worker.ts";
import { callFunction } from "../../supabase/data-api.ts";
import { reviewDrafts } from "../../supabase/review-drafts.ts";
import type { InfrastructureAdmin } from "../require-admin.ts";
import type { ComparedPrices } from "./compare-files.ts";
import { routePricesSchema } from "./proposal.ts";
import type { PriceFile } from "./read-source.ts";
import { type ReviewedPrices, reviewedPricesSchema } from "./review.ts";

/**
 * Compares price files with the prices of all routes.
 * @returns the differences to review and the findings, or what is wrong with a file
 * @throws Response 429 while other files are being read, 503 UNAVAILABLE
 */
export async function compareFiles(
  context: AppLoadContext,
  {
    admin,
    ...input
  }: { admin: Pick<InfrastructureAdmin, "id">; files: readonly PriceFile[]; names: ReadonlyMap<string, string> },
): Promise<ComparedPrices | { error: string }> {
  const { requestId } = context;
  const routes = await callFunction(context, { name: "private.list_route_prices", schema: routePricesSchema });
  return runInWorker("comparePriceFiles", { input: { ...input, routes }, owner: admin.id, requestId });
}

/** Keeps what a review page shows. @returns the id for its form */
export function saveReview(
  context: AppLoadContext,
  { admin, shown }: { admin: InfrastructureAdmin; shown: ReviewedPrices },
) {
  return draftsOf(context, admin).store(JSON.stringify(shown));
}

/** Returns what a review page showed; null if it has expired. @throws Response 503 UNAVAILABLE */
export async function readReview(
  context: AppLoadContext,
  { admin, draftId }: { admin: InfrastructureAdmin; draftId: string },
): Promise<ReviewedPrices | null> {
  const text = await draftsOf(context, admin).read(draftId);
  return text === null ? null : reviewedPricesSchema.parse(JSON.parse(text));
}

function draftsOf(context: AppLoadContext, { id }: InfrastructureAdmin) {
  return reviewDrafts(context, { userId: id, kind: "prices" });
}
