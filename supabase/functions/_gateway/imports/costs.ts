import { type ProviderCost, providerCost, providerCostBatch } from "../../_shared/provider-records.ts";
import type { Caller, GatewayDatabase, StoredRecord } from "../database/database.ts";
import { errorBody, GatewayError } from "../http/errors.ts";
import { parseRecord } from "../http/parse-body.ts";
import { type CostReceipt, requireOutcome } from "./serve-import.ts";

/**
 * Parses a batch of reported costs.
 * @returns each record, or the error of an invalid record
 * @throws GatewayError if the value isn't a batch
 */
export function readCosts(value: unknown): (ProviderCost | GatewayError)[] {
  return parseRecord(providerCostBatch, value).records.map((record) => {
    try {
      return parseRecord(providerCost, record);
    } catch (error) {
      if (error instanceof GatewayError) return error;
      throw error;
    }
  });
}

/** Stores one cost. @throws GatewayError if the database refuses it */
export async function storeCost(
  database: GatewayDatabase,
  { caller, cost }: { caller: Caller; cost: ProviderCost },
): Promise<object> {
  const [stored] = await database.importCosts({ ...caller, records: [cost.record] });
  return createReceipt(cost, stored);
}

/** Stores the valid records of a batch independently. @returns one outcome or error per record, in order */
export async function storeCosts(
  database: GatewayDatabase,
  {
    caller,
    records,
    requestId,
  }: { caller: Caller; records: readonly (ProviderCost | GatewayError)[]; requestId: string },
): Promise<object> {
  const good = records.flatMap((cost) => (cost instanceof GatewayError ? [] : [cost.record]));
  // Calls the database even if no record is valid, so that the caller is checked.
  const stored = (await database.importCosts({ ...caller, records: good })).values();
  const results = records.map((cost) => {
    if (cost instanceof GatewayError) return { accepted: false, ...errorBody(cost, requestId) };
    try {
      return createReceipt(cost, stored.next().value);
    } catch (error) {
      if (!(error instanceof GatewayError)) throw error;
      return { accepted: false, externalRunId: cost.record.externalRunId, ...errorBody(error, requestId) };
    }
  });
  return { results };
}

function createReceipt({ record, receipt }: ProviderCost, stored: StoredRecord | undefined): CostReceipt {
  return { accepted: true, externalRunId: record.externalRunId, outcome: requireOutcome(stored), ...receipt };
}
