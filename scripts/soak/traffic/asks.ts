/** One attempt of a request, as recorded by its client. */
export type Attempt = {
  requestId: string;
  startedAt: number;
  endedAt: number;
  status: number | null;
  /** The run's data in a complete answer; null if no complete answer arrived. */
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
