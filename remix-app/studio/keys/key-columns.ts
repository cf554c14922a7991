import type { CsvColumn } from "../../http/csv.ts";
import type { KeySummary } from "./key-schema.ts";

/** The columns of the keys' file. */
export const keyColumns: CsvColumn<KeySummary>[] = [
  { name: "name", value: ({ name }) => name },
  { name: "prefix", value: ({ prefix }) => prefix },
  { name: "environment", value: ({ environment }) => environment },
  { name: "created_at", value: ({ createdAt }) => createdAt },
  { name: "created_by", value: ({ createdBy }) => createdBy },
  { name: "last_used_at", value: ({ lastUsedAt }) => lastUsedAt },
  { name: "expires_at", value: ({ expiresAt }) => expiresAt },
  { name: "revoked_at", value: ({ revokedAt }) => revokedAt },
  { name: "state", value: ({ state }) => state },
  { name: "app", value: ({ externalApp }) => externalApp?.name ?? null },
  { name: "requests_per_minute", value: ({ requestsPerMinute }) => requestsPerMinute },
  { name: "tokens_per_minute", value: ({ tokensPerMinute }) => tokensPerMinute },
  { name: "models", value: ({ allowedModels }) => allowedModels?.join(" ") },
  { name: "addresses", value: ({ allowedAddresses }) => allowedAddresses?.join(" ") },
  { name: "strict", value: ({ strict }) => String(strict) },
  { name: "budget_usd", value: ({ budget }) => budget?.limitUsd ?? null },
  { name: "spent_usd", value: ({ budget }) => budget?.spentUsd ?? null },
];
