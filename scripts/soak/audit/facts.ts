/** A run as the database has it. Amounts are exact decimals. */
export type RunFact = {
  id: string;
  tenant: string;
  requestId: string;
  idempotencyKey: string | null;
  status: "running" | "succeeded" | "failed" | "cancelled";
  usageSource: "provider" | "provider_partial" | "estimated_partial" | "unavailable" | null;
  errorCode: string | null;
  swept: boolean;
  exempt: boolean;
  /** Milliseconds since 1970. */
  createdAt: number;
  settledAt: number | null;
  inputTokens: number;
  cachedInputTokens: number;
  outputTokens: number;
  reasoningTokens: number;
  costUsd: string;
  billedCredits: string;
  reservedUsd: string;
  creditsPerUsd: string;
  prices: { min_input_tokens: number; input: string; cached_input?: string; output: string }[];
  /** What the ledger has taken for it in all, and in how many entries. */
  charged: string;
  entries: number;
};

/** A workspace's books. */
export type BookFact = {
  tenant: string;
  granted: string;
  balance: string;
  reserved: string;
  ledger: string;
  billed: string;
  openRuns: number;
};

/** Totals of runs as somebody reports them. */
export type Totals = { requests: number; costUsd: string; billedCredits: string };
