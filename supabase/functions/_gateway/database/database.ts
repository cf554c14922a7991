import { z } from "zod";
import type { AiCredentialKind } from "../../_shared/ai-key.ts";
import type { AttemptFailure } from "../../_shared/attempt.ts";
import type { Claims } from "../../_shared/claims.ts";
import type { Tariff } from "../../_shared/money.ts";
import type { SizeFields } from "../../_shared/refusal-message.ts";
import type { EnvelopeRequest } from "../envelopes/envelope-header.ts";
import type { RunEnvelope } from "../envelopes/envelope-room.ts";
import { type EnvelopeSnapshot, envelopeSnapshot } from "../envelopes/envelope-watch.ts";
import { GatewayError } from "../http/errors.ts";
import { createBatchQueue } from "./batch-queue.ts";
import { createBeginQueue } from "./begin-queue.ts";
import { createConnections, databaseWaitMs, isAccountUnreadable } from "./connections.ts";
import type { limitReport } from "./rate-limits.ts";
import { isRefusal, refusalError, requireAnswer } from "./refusals.ts";
import { createTakeQueue } from "./take-queue.ts";

/** A route of a run, with its prices at the time the run began. */
export type RunRoute = Tariff & {
  position: number;
  provider: string;
  model: string;
  trusts_stated_cost?: boolean;
  /** The route's own time limits, in seconds. */
  time_limits?: { first_byte?: number; idle?: number; total?: number };
  /** Whether calls are taken from the limits of the provider. */
  limited?: boolean;
};

/** An open run, as returned by `ai.begin_runs`. */
export type Run = {
  run_id: string;
  created_at: string;
  workspace_id: string;
  model: string;
  context_window?: number | null;
  voice?: string | null;
  routes: RunRoute[];
  credits_per_usd: string;
  exempt: boolean;
  reserved_usd: string;
  reserved_credits: string;
  /** The tokens that the run reserved in the rate-limit window, or null without a token limit. */
  reserved_tokens?: number | null;
  /** The output limit that applies to a chat: the limit that the client sent, or a default that fits the model. */
  output_limit?: number | null;
  /** The output that budgets have reserved, in tokens, if some of them reserve the expected cost. */
  expected_output?: number | null;
  cost_visible: boolean;
  capture: boolean;
  limits: z.infer<typeof limitReport>;
  /** Null if the caller does not use a key. */
  key_name?: string | null;
  /** Whether the key refuses calls with fields that would not reach the provider. */
  strict?: boolean;
  /** The envelope that holds the run. */
  envelope?: RunEnvelope | null;
};
const extendedRun = z.object({ reserved_usd: z.string(), reserved_credits: z.string() });
const modelListing = z.object({ listing: z.string(), endpoints: z.array(z.array(z.string())) });
const checkedCredential = z.object({ workspace_id: z.string() });
const storedAnswer = z.looseObject({ refused: z.literal("idempotency_key_used"), answer: z.string() });
const runIdTails = z.array(z.string());
const storedRecord = z.object({
  outcome: z.enum(["stored", "corrected", "unchanged", "stale"]).optional(),
  refused: z.string().optional(),
  param: z.string().optional(),
  message: z.string().optional(),
});
const envelopeSnapshots = z.array(envelopeSnapshot);
const storedRecords = z.object({ results: z.array(storedRecord) });

/** The answer of an earlier call with the same idempotency key, as JSON. */
export type StoredAnswer = { storedAnswer: string };

/** The result for one imported record: its outcome, or the reason why it was refused. */
export type StoredRecord = z.infer<typeof storedRecord>;

export type ModelKind = "chat" | "embedding" | "speech";

/**
 * A credential as passed to the database. For a key or an app's token: the source, and the SHA-256 of the text in hex.
 * For a person's own session: the claims of a verified token, and a proof of the session's mobile approval if our web
 * server sent one.
 */
export type Credential = { source: AiCredentialKind; hash: string } | { source: "session"; claims: SessionClaims };

type SessionClaims = Pick<Claims, "sub" | "session_id" | "aal" | "amr"> & { approval_proof: string | undefined };

/** A caller's credential and IP address, and the workspace that the request names. */
export type Caller = { credential: Credential; workspace?: string; address?: string };

/**
 * The argument of `ai.begin_runs`. Members with their default value are left out: not streamed, no images, no audio, and
 * one choice.
 */
export type RunRequest = Caller & {
  request_id: string;
  feature: string;
  entity_id?: string;
  /** The label to use if neither the key nor the call has one. */
  session_label?: string;
  /**
   * The last 17 characters for the run's id, chosen at random by the gateway. They identify the run if `ai.begin_runs`
   * was never answered.
   */
  run_id_suffix?: string;
  envelope?: EnvelopeRequest;
  idempotency_key?: string;
  fingerprint?: string;
  kind: ModelKind;
  streamed?: boolean;
  model?: string;
  voice?: string;
  providers: string[];
  /** The providers at which the answer can be stopped, if budgets may reserve its expected cost. */
  stoppable_providers?: string[];
  /** The regions of providers, by id. A workspace's policy may allow only some regions. */
  regions: Record<string, string>;
  input_bytes: number;
  /** How often the model may read the input. No reading exceeds the context window. */
  input_reads?: number;
  /** The tokens of the input to leave room for in the context window, if `input_bytes` are far more. */
  expected_tokens?: number;
  /** Whether the request caches its input for an hour. */
  hour_writes?: boolean;
  /** Whether the call costs nothing, so that no budget or balance refuses it. */
  is_free?: boolean;
  images?: number;
  /**
   * Maximum number of requests that the provider bills separately, such as web searches. The run is refused if a route
   * has no price for them.
   */
  fee_requests?: number;
  audio?: boolean;
  /** Length of the audio in the input in seconds, rounded up. `input_bytes` includes neither audio nor images. */
  audio_seconds?: number;
  /** The service tier that the client requests. The run is refused if the tier has no price. */
  service_tier?: string;
  output_limit: number;
  /** Whether `output_limit` is our default because the client stated none. */
  output_limit_assumed?: boolean;
  choices?: number;
  /** The fields that a refusal names if the request is too large. The database does not read them. */
  size_fields?: SizeFields;
};

/** The argument of `ai.extend_run` for another provider call. */
type RunStep = Pick<
  RunRequest,
  | "input_bytes"
  | "hour_writes"
  | "images"
  | "audio"
  | "audio_seconds"
  | "service_tier"
  | "output_limit"
  | "output_limit_assumed"
  | "size_fields"
> & {
  /** Input and output tokens of the earlier steps. */
  used_tokens: number;
};

/** Further output of the current provider call, in tokens: `from` what is reserved `to` what is needed. */
type FurtherOutput = { from: number; to: number; limit: number };

type Extension = { created_at: string; id: string } & (RunStep | { output: FurtherOutput });
type ExtendedRun = Pick<Run, "created_at" | "run_id" | "workspace_id">;

/** The argument of `ai.store_run_content`. */
export type RunContent = { created_at: string; id: string; prompt?: string; tools?: string; answer?: string };

/** A refused call, as passed to `ai.record_refused_calls`. */
export type RefusedCall = {
  request_id: string;
  endpoint: string;
  feature: string;
  label?: string | undefined;
  /** The model as the request names it. */
  model?: string | undefined;
  streamed?: boolean;
  status: number;
  code: string;
  param?: string | undefined;
  details?: object | undefined;
  age_ms: number;
};

/** The number of refused calls of a model, feature and error code. */
export type RefusedCount = { model?: string | undefined; feature?: string; code: string; count: number };

/** The refused calls of a caller: the first ones in full, and how many there are. */
type RefusedCalls = Pick<Caller, "credential" | "workspace"> & {
  /** The age of the first of them. All of them are from the same minute. */
  age_ms: number;
  calls: RefusedCall[];
  counts: RefusedCount[];
};

/** The health of a route in this process, as passed to `ai.report_routes`. */
export type RouteReport = {
  provider: string;
  model: string;
  endpoint: string;
  answered_ms_ago?: number | undefined;
  /** The age of the first failure since the last answer. */
  failing_ms_ago?: number | undefined;
  failed_ms_ago?: number | undefined;
  /** The failures since the last answer that were not reported before. */
  failures: number;
  failure?: AttemptFailure | undefined;
  status?: number | undefined;
  /** What is left of a cooldown or, if the last call was answered, would be left of one that the answer ended. */
  cooldown_ms?: number | undefined;
};

/** The gateway's database functions. Each method is one statement and one round trip. */
export type GatewayDatabase = ReturnType<typeof createDatabase>;

const maxExtensions = 2;
/** Maximum length of a refusal, in characters. */
const maxRefusalLength = 4_096;

/**
 * Waits for a statement that checks a caller.
 * @throws GatewayError `AUTH_UNAVAILABLE` if a person's account policy could not be read; a key depends on none
 */
async function awaitCheck<Answer>({ credential }: Caller, statement: Promise<Answer>): Promise<Answer> {
  try {
    return await statement;
  } catch (error) {
    if (credential.source === "key" || !isAccountUnreadable(error)) throw error;
    throw new GatewayError("AUTH_UNAVAILABLE", { cause: (error as GatewayError).cause });
  }
}

/**
 * Creates the gateway's database client, which connects as role `gateway` on first use.
 * @throws GatewayError `service_unavailable` from every method while the database is unavailable or
 * overloaded. Those that check a person's session or app token throw `AUTH_UNAVAILABLE` if the account can't be read.
 */
export function createDatabase(options: { url: string; connections?: number; waitMs?: number; waitingBytes?: number }) {
  const { waitMs = databaseWaitMs, waitingBytes = Number.POSITIVE_INFINITY } = options;
  const { call, close } = createConnections(options);
  const callAs = (name: string, caller: Caller) => awaitCheck(caller, call(name, caller));
  const readAs = async (name: string, caller: Caller) => requireAnswer(JSON.parse(await callAs(name, caller)));

  const begin = createBeginQueue({ call, waitMs, waitingBytes });
  const extensions = createBatchQueue<{ run: Pick<Run, "workspace_id">; step: Extension }, unknown>({
    send: async (steps, limits) => [JSON.parse(await call("ai.extend_run", steps[0]?.step ?? {}, limits.waitMs))],
    laneOf: ({ run }) => run.workspace_id,
    maxBatch: 1,
    maxBatches: maxExtensions,
    waitMs,
  });
  const extend = (run: ExtendedRun, step: RunStep | { output: FurtherOutput }) =>
    extensions.ask({ run, step: { created_at: run.created_at, id: run.run_id, ...step } });

  return {
    async beginRun(request: RunRequest): Promise<Run | StoredAnswer> {
      const answer = await awaitCheck(request, begin(request));
      if (!isRefusal(answer)) return answer as Run;
      const earlier = storedAnswer.safeParse(answer);
      if (earlier.success) return { storedAnswer: earlier.data.answer };
      throw refusalError(answer, request.size_fields);
    },
    /**
     * Ends runs without a charge if the gateway never received the response to their admission.
     * @param tails the last characters of the runs' ids
     * @param ageMs milliseconds since the oldest request for one of these runs
     * @returns the tails of the runs whose admission is still in progress
     */
    async releaseOrphanedRuns(tails: readonly string[], ageMs: number): Promise<string[]> {
      // The statement may wait for a connection first.
      const argument = { tails, asked_ms_ago: Math.ceil(ageMs + databaseWaitMs) };
      return runIdTails.parse(JSON.parse(await call("ai.release_orphaned_runs", argument)));
    },
    /**
     * Reserves another provider call for a run.
     * @throws GatewayError if the reservation is refused
     */
    async extendRun(run: ExtendedRun, step: RunStep): Promise<z.infer<typeof extendedRun>> {
      return extendedRun.parse(requireAnswer(await extend(run, step), step.size_fields));
    },
    /**
     * Reserves further output of a run's stream in the budgets that reserve its expected cost.
     * @throws GatewayError if the reservation is refused
     */
    async extendOutput(run: ExtendedRun, output: FurtherOutput): Promise<void> {
      requireAnswer(await extend(run, { output }));
    },
    /** Takes a call from the limits of its provider. */
    takeProviderCall: createTakeQueue({ call, waitMs }),
    /** Stores the content of a run, if its workspace captures content. */
    async storeRunContent(content: RunContent): Promise<void> {
      await call("ai.store_run_content", content);
    },
    async settleRuns(outcomes: readonly object[]): Promise<void> {
      await call("ai.settle_runs", outcomes);
    },
    async heartbeatRuns(counts: readonly object[]): Promise<void> {
      await call("ai.heartbeat_runs", counts);
    },
    /** Returns the envelopes of calls that wait or run in this process. Leaves out those that were deleted. */
    async readEnvelopes(ids: readonly string[]): Promise<EnvelopeSnapshot[]> {
      return envelopeSnapshots.parse(JSON.parse(await call("ai.read_envelopes", ids)));
    },
    /** Returns an envelope of the caller, as JSON text. @throws GatewayError `envelope_not_found` for any other */
    async readOwnEnvelope(request: Caller & { envelope_id: string }): Promise<string> {
      const text = await callAs("ai.read_own_envelope", request);
      requireAnswer(JSON.parse(text));
      return text;
    },
    /** Records refused calls. @returns whether they were recorded; false while another process records its own */
    async recordRefusedCalls(callers: readonly RefusedCalls[]): Promise<boolean> {
      return (await call("ai.record_refused_calls", { callers })) === "true";
    },
    async reportRoutes(reports: readonly RouteReport[]): Promise<void> {
      await call("ai.report_routes", reports);
    },
    /**
     * Checks a credential.
     * @returns the id of the credential's workspace
     * @throws GatewayError if the credential is not valid now, or not valid for the workspace or kind that `caller` names
     */
    async checkCredential(caller: Caller & { kind?: ModelKind }): Promise<string> {
      return checkedCredential.parse(await readAs("ai.check_credential", caller)).workspace_id;
    },
    /**
     * Returns the models that a credential may use, or one named model, as JSON text with exact prices. Also returns the
     * paths that serve each model, in the same order.
     */
    async listModels(
      request: Caller & {
        model?: string;
        providers: string[];
        regions: Record<string, string>;
        paths: readonly { path: string; kind: ModelKind; providers: string[] }[];
      },
    ): Promise<z.infer<typeof modelListing>> {
      return modelListing.parse(await readAs("ai.list_models", request));
    },
    /** Returns a credential's description, limits, spend and remaining budget, as JSON text with exact amounts. */
    async describeCredential(caller: Caller): Promise<string> {
      const text = await callAs("ai.describe_credential", caller);
      requireAnswer(JSON.parse(text));
      return text;
    },
    /** Does the same as `checkCredential`, but accepts only registered apps. Used by the imports and the usage report. */
    async checkAppCaller(caller: Caller): Promise<string> {
      return checkedCredential.parse(await readAs("ai.check_app_caller", caller)).workspace_id;
    },
    /** Stores reported costs independently of each other. @returns one answer per record, in order */
    async importCosts(costs: Caller & { records: readonly object[] }): Promise<StoredRecord[]> {
      return storedRecords.parse(await readAs("ai.import_provider_costs", costs)).results;
    },
    async importInvoice(invoice: Caller & { record: object }): Promise<StoredRecord> {
      return storedRecord.parse(await readAs("ai.import_provider_invoice", invoice));
    },
    /** Returns an app's usage in a time window, as JSON text with exact amounts. */
    async reportUsage(window: Caller & { from?: string; to?: string; notes_use: boolean }): Promise<string> {
      const text = await callAs("ai.report_usage", window);
      // Parses only short results, which may be refusals. Longer results are reports, which would be slow to parse.
      if (text.length < maxRefusalLength) requireAnswer(JSON.parse(text));
      return text;
    },
    close,
  };
}
