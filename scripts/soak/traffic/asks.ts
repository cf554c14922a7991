/** One attempt of a request, as its client saw it. */
export type Attempt = {
  requestId: string;
  startedAt: number;
  endedAt: number;
  status: number | null;
  /** What a complete answer said about the run; null if no complete answer arrived. */
  told: { runId: string; billedCredits: string; costUsd: string | null; usageSource: string } | null;
  left: boolean;
};

/** One request to a model, with all its attempts. */
export type Ask = {
  tenant: string;
  what: string;
  idempotencyKey: string | null;
  attempts: Attempt[];
};
