import { z } from "zod";
import { formatDecimal } from "#shared/decimal.ts";
import { UnreadableCostFile } from "../../studio/costs/files/cost-file.ts";
import { type JsonObject, readExactAmount } from "../../studio/costs/files/json-values.ts";
import { openRouter } from "../importer/openrouter.ts";
import type { CostSource } from "../importer/read-report.ts";
import { FailedReport, requestPage } from "../importer/request-page.ts";

/** A call at OpenRouter: a run may have several. */
export type GenerationCall = { runId: string; generationId: string };

/** OpenRouter's answer about a call, in exact decimals of USD. */
export type GenerationCost = GenerationCall & {
  /** What OpenRouter charges. Null if it doesn't know the call. */
  costUsd: string | null;
  /** What another provider charges the operator's own key, beyond `costUsd`. Null for a call with OpenRouter's key. */
  ownKeyUsd: string | null;
};

const answerSchema = z.object({
  data: z.object({
    id: z.string(),
    total_cost: z.unknown().optional(),
    is_byok: z.boolean().nullish(),
    upstream_inference_cost: z.unknown().optional(),
  }),
});

const maxBytes = 1024 * 1024;

/**
 * Asks OpenRouter what a call cost. `total_cost` is what OpenRouter charges. `upstream_inference_cost` is charged in
 * addition only for an own key, and otherwise a part of it (https://github.com/OpenRouterTeam/ai-sdk-provider/issues/532).
 * A call that it doesn't know yet, or never stored, is a 404, and an id that it can't read is a 400.
 * https://openrouter.ai/docs/api/api-reference/generations/get-generation
 * @throws FailedReport with status 200 for an unreadable answer
 */
export async function requestGeneration(
  { baseUrl, key }: Pick<CostSource, "baseUrl" | "key">,
  { call, signal, timeoutMs }: { call: GenerationCall; signal: AbortSignal; timeoutMs: number },
): Promise<GenerationCost> {
  const url = new URL(`${baseUrl}/generation`);
  url.searchParams.set("id", call.generationId);
  const request = { url, headers: { authorization: `Bearer ${key}` } };
  try {
    const { page } = await requestPage(request, { provider: openRouter, signal, timeoutMs, maxBytes });
    return { ...call, ...readCost(page, call) };
  } catch (error) {
    const isUnknown = error instanceof FailedReport && (error.status === 404 || error.status === 400);
    if (!isUnknown) throw error;
    return { ...call, costUsd: null, ownKeyUsd: null };
  }
}

function readCost(page: JsonObject, { generationId }: GenerationCall): Pick<GenerationCost, "costUsd" | "ownKeyUsd"> {
  try {
    const { id, total_cost, is_byok, upstream_inference_cost } = answerSchema.parse(page).data;
    if (id !== generationId) throw new UnreadableCostFile("Another generation.");
    const isOwnKey = is_byok === true && upstream_inference_cost != null;
    return {
      costUsd: readCharge(total_cost, "total_cost"),
      ownKeyUsd: isOwnKey ? readCharge(upstream_inference_cost, "upstream_inference_cost") : null,
    };
  } catch (error) {
    if (!(error instanceof UnreadableCostFile || error instanceof z.ZodError)) throw error;
    const message = `OpenRouter’s answer about ${generationId} is not the cost of that call. Ask its support.`;
    throw new FailedReport(message, { status: 200 });
  }
}

function readCharge(value: unknown, where: string): string {
  const amount = readExactAmount(value, where);
  if (amount.units < 0n) throw new UnreadableCostFile(`${where} is negative.`);
  return formatDecimal(amount);
}
