import { setImmediate } from "node:timers";
import { z } from "zod";
import type { Tariff } from "../_shared/money.ts";
import type { Credential } from "./admission/credentials.ts";
import { toldLimits } from "./admission/rate-limits.ts";
import { admitted, isRefusal, refusalError } from "./admission/refusals.ts";
import { createBatchQueue } from "./batch-queue.ts";
import { createConnections } from "./connections.ts";
import type { SizeFields } from "./surface.ts";

/** A route of a run, with its prices of the moment that the run began. */
export type RunRoute = Tariff & {
  position: number;
  provider: string;
  model: string;
  trusts_stated_cost?: boolean;
  /** Its own time limits, in seconds. */
  time_limits?: { first_byte?: number; idle?: number; total?: number };
};

/** One for all texts of a run that begins: what a schema has to look up is then at hand. */
const textSchema = z.string();
const route = z.object({
  position: z.number(),
  provider: textSchema,
  model: textSchema,
  prices: z.array(
    z.object({
      service_tier: textSchema.optional(),
      min_input_tokens: z.number(),
      input: textSchema,
      cached_input: textSchema.optional(),
      cache_write: textSchema.optional(),
      cache_write_1h: textSchema.optional(),
      output: textSchema,
      audio_input: textSchema.optional(),
      audio_output: textSchema.optional(),
      image_input: textSchema.optional(),
      request_fee: textSchema.optional(),
    }),
  ),
  tier_multipliers: z.record(z.string(), z.number()).optional(),
  trusts_stated_cost: z.boolean().optional(),
  time_limits: z
    .object({ first_byte: z.number().optional(), idle: z.number().optional(), total: z.number().optional() })
    .optional(),
});
const begunRun = z.object({
  run_id: textSchema,
  created_at: textSchema,
  workspace_id: textSchema,
  model: textSchema,
  context_window: z.number().nullish(),
  voice: textSchema.nullish(),
  routes: z.array(route).min(1),
  credits_per_usd: textSchema,
  exempt: z.boolean(),
  reserved_usd: textSchema,
  reserved_credits: textSchema,
  /** What the run reserved in the rate windows; null without a token limit. */
  reserved_tokens: z.number().nullish(),
  /** The effective output limit of a chat: the client's, or our default as far as the model's limit allows. */
  output_limit: z.number().nullish(),
  cost_visible: z.boolean(),
  capture: z.boolean(),
  limits: toldLimits,
  /** Null where the caller is not a key. */
  key_name: textSchema.nullish(),
  /** The key refuses calls with members that the provider would not get. */
  strict: z.boolean().optional(),
});
const extendedRun = z.object({ reserved_usd: textSchema, reserved_credits: textSchema });
const modelListing = z.object({ listing: z.string(), endpoints: z.array(z.array(z.string())) });
const checkedCredential = z.object({ workspace_id: z.string() });
const keptAnswer = z.looseObject({ refused: z.literal("idempotency_key_used"), answer: z.string() });
const undecided = z.array(z.string());
const storedRecord = z.object({
  outcome: z.enum(["stored", "corrected", "unchanged", "stale"]).optional(),
  refused: z.string().optional(),
  param: z.string().optional(),
  message: z.string().optional(),
});
const storedRecords = z.object({ results: z.array(storedRecord) });

/** An open run, as `ai.begin_run` answers it. */
export type Run = z.infer<typeof begunRun>;
/** The answer of an earlier call with the same idempotency key, as JSON. */
export type KeptAnswer = { kept: string };

/** What became of an imported record: its outcome, or why it was refused. */
export type StoredRecord = z.infer<typeof storedRecord>;

/** What a model of the catalogue is for. */
export type ModelKind = "chat" | "embedding" | "speech";

/** Who calls: the credential, the workspace that is named, and where from. */
export type Caller = { credential: Credential; workspace?: string; address?: string };

/**
 * What `ai.begin_run` is asked. Left out is what nearly all calls would say: not streamed, no images, no audio, and one
 * choice.
 */
export type RunRequest = Caller & {
  request_id: string;
  feature: string;
  entity_id?: string;
  /** The label of a call that has none, of its own or of its key. */
  session_label?: string;
  /** The last 17 characters of the run's id, if it begins: the caller's own, and random. */
  run_id_suffix?: string;
  idempotency_key?: string;
  fingerprint?: string;
  kind: ModelKind;
  streamed?: boolean;
  model?: string;
  voice?: string;
  providers: string[];
  input_bytes: number;
  images?: number;
  /** Requests with a fee of their own, at most; refused where a route has no price for them. */
  fee_requests?: number;
  audio?: boolean;
  /** Of the audio in the input, rounded up; `input_bytes` has neither audio nor images. */
  audio_seconds?: number;
  /** The tier that the client names; refused where it has no price. */
  service_tier?: string;
  output_limit: number;
  /** The client stated no output limit. */
  output_limit_assumed?: boolean;
  choices?: number;
  /** For the message of a refusal; the database does not read it. */
  size_fields?: SizeFields;
};

/** What `ai.extend_run` is asked. */
type RunStep = Pick<
  RunRequest,
  | "input_bytes"
  | "images"
  | "audio"
  | "audio_seconds"
  | "service_tier"
  | "output_limit"
  | "output_limit_assumed"
  | "size_fields"
> & {
  created_at: string;
  id: string;
  /** Input and output of the steps before it. */
  used_tokens: number;
};

/** What `ai.store_run_content` is told of a run. */
export type RunContent = { created_at: string; id: string; prompt?: string; tools?: string; answer?: string };

/** The gateway's database: one statement a method, each one network flight. */
export type GatewayDatabase = {
  beginRun: (request: RunRequest) => Promise<Run | KeptAnswer>;
  /**
   * Ends at nothing the runs that began though nobody was told, by the tails of their ids.
   * @param askedMsAgo since the first of them was asked for
   * @returns the tails about which nothing is decided yet
   */
  releaseOrphanedRuns: (tails: readonly string[], askedMsAgo: number) => Promise<string[]>;
  /** Reserves a further provider call of a run. @throws GatewayError where it is refused */
  extendRun: (step: RunStep) => Promise<z.infer<typeof extendedRun>>;
  /** Keeps what was said in a run, where its workspace captures content. */
  storeRunContent: (content: RunContent) => Promise<void>;
  settleRuns: (outcomes: readonly object[]) => Promise<void>;
  heartbeatRuns: (counts: readonly object[]) => Promise<void>;
  /**
   * @returns the id of the workspace whose credential it is
   * @throws GatewayError unless the credential is good at this moment, for that workspace where one is named, and for
   * calls of a kind where that is named
   */
  checkCredential: (caller: Caller & { kind?: ModelKind }) => Promise<string>;
  /**
   * The models that a credential may use, or the one named, as JSON text in which prices are exact; and of each, in the
   * same order, the paths that serve it.
   */
  listModels: (
    request: Caller & {
      model?: string;
      providers: string[];
      paths: readonly { path: string; kind: ModelKind; providers: string[] }[];
    },
  ) => Promise<{ listing: string; endpoints: string[][] }>;
  /** What a credential is, what holds for it, what it spent and what is left, as JSON text in which amounts are exact. */
  describeCredential: (caller: Caller) => Promise<string>;
  /** As checkCredential, for calls of registered apps alone: imports and the usage report. */
  checkAppCaller: (caller: Caller) => Promise<string>;
  /** Stores reported costs, each for itself. @returns one answer for each, in their order */
  importCosts: (call: Caller & { records: readonly object[] }) => Promise<StoredRecord[]>;
  importInvoice: (call: Caller & { record: object }) => Promise<StoredRecord>;
  /** An app's usage of a window, as JSON text in which amounts are exact. */
  reportUsage: (call: Caller & { from?: string; to?: string; notes_use: boolean }) => Promise<string>;
  close: () => Promise<void>;
};

/** For admission to answer, and for a call to wait before it is asked. `ai.exceeds_caller_timeout` undoes earlier what took so long. */
const beginTimeoutMs = 1_500;
const maxBeginBatch = 32;
const maxWaitingBegins = 500;
/** Characters. */
const longestRefusal = 4_096;

/**
 * Connects as role `gateway`, when first asked something.
 * @throws GatewayError `service_unavailable` from every method while the database cannot be had
 */
export function createDatabase(options: { url: string; connections?: number }): GatewayDatabase {
  const { call, close } = createConnections(options);

  const begins = createBatchQueue<RunRequest, unknown>({
    askMany: async (requests) => JSON.parse(await call("ai.begin_runs", requests, beginTimeoutMs)),
    askOne: async (request) => JSON.parse(await call("ai.begin_run", request, beginTimeoutMs)),
    // It waits for other calls with the same key.
    isSingle: ({ idempotency_key }) => idempotency_key !== undefined,
    maxBatch: maxBeginBatch,
    // Requests that have arrived in this turn of the event loop join the batch.
    gather: setImmediate,
    maxWaiting: maxWaitingBegins,
    maxWaitMs: beginTimeoutMs,
  });

  return {
    async beginRun(request) {
      const answer = await begins.ask(request);
      if (!isRefusal(answer)) return begunRun.parse(answer);
      const earlier = keptAnswer.safeParse(answer);
      if (earlier.success) return { kept: earlier.data.answer };
      throw refusalError(answer, request.size_fields);
    },
    async releaseOrphanedRuns(tails, askedMsAgo) {
      const lost = { tails, asked_ms_ago: Math.ceil(askedMsAgo) };
      return undecided.parse(JSON.parse(await call("ai.release_orphaned_runs", lost)));
    },
    async extendRun(step) {
      return extendedRun.parse(admitted(JSON.parse(await call("ai.extend_run", step)), step.size_fields));
    },
    async storeRunContent(content) {
      await call("ai.store_run_content", content);
    },
    async settleRuns(outcomes) {
      await call("ai.settle_runs", outcomes);
    },
    async heartbeatRuns(counts) {
      await call("ai.heartbeat_runs", counts);
    },
    async checkCredential(request) {
      const answer = admitted(JSON.parse(await call("ai.check_credential", request)));
      return checkedCredential.parse(answer).workspace_id;
    },
    async listModels(request) {
      return modelListing.parse(admitted(JSON.parse(await call("ai.list_models", request))));
    },
    async describeCredential(request) {
      const text = await call("ai.describe_credential", request);
      admitted(JSON.parse(text));
      return text;
    },
    async checkAppCaller(caller) {
      const answer = admitted(JSON.parse(await call("ai.check_app_caller", caller)));
      return checkedCredential.parse(answer).workspace_id;
    },
    async importCosts(costs) {
      const answer = admitted(JSON.parse(await call("ai.import_provider_costs", costs)));
      return storedRecords.parse(answer).results;
    },
    async importInvoice(invoice) {
      const text = await call("ai.import_provider_invoice", invoice);
      return storedRecord.parse(admitted(JSON.parse(text)));
    },
    async reportUsage(window) {
      const text = await call("ai.report_usage", window);
      // A refusal is short; a year of rows would take as long to parse as to write.
      if (text.length < longestRefusal) admitted(JSON.parse(text));
      return text;
    },
    close,
  };
}
