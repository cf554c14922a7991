import type { ModelKind, RunRoute } from "../database/database.ts";
import type { Body } from "../http/body.ts";
import type { ErrorShape, GatewayError } from "../http/errors.ts";
import type { Endpoint } from "../providers/kinds/kind.ts";
import type { ProviderRequest } from "../providers/provider.ts";
import type { Provider } from "../providers/provider-settings.ts";
import type { ParsedRequest } from "../requests/parsed-request.ts";
import type { OpenRun } from "../runs/run.ts";
import type { CallCounts, UsageLimits } from "../usage/usage.ts";
import type { Gateway } from "./gateway.ts";

/**
 * Defines how the calls of an endpoint are read, forwarded and answered. Admission and settlement are the same for all.
 */
export type Surface<Request extends ParsedRequest> = {
  feature: "chat" | "responses" | "messages" | "count_tokens" | "embeddings" | "speech" | "generate";
  kind: ModelKind;
  /** The provider endpoint to which the surface forwards. */
  endpoint: Endpoint;
  /** A header that may carry the credential instead of `Authorization`. */
  keyHeader?: "x-api-key";
  /** The format of errors. Defaults to OpenAI's. */
  errors?: ErrorShape;
  limitBytes: number;
  /** The maximum number of plain numbers in lists, if they don't count as values (`parseJson`). */
  maxNumbers?: number;
  /**
   * Parses a body.
   * @throws GatewayError that names the field or header
   */
  read: (value: unknown, bodyBytes: number, headers: Headers) => Request;
  /** Returns the agent session that the body states. */
  session?: (request: Request) => string | undefined;
  request: (request: Request, to: ProviderTarget) => ProviderRequest;
  answer: (gateway: Gateway, call: AdmittedCall<Request>) => Promise<Response>;
  /**
   * Returns what keeps a silent stream alive: an event that this API's clients count as activity. Defaults to a comment.
   */
  keepalive?: (call: PendingCall<Request>) => string;
  /** Returns the event that ends a stream with an error, if it depends on the keepalives before. */
  failure?: (error: GatewayError, call: PendingCall<Request>) => string;
  /** Whether a response can't begin before its answer is complete, because it is neither a stream nor JSON. */
  beginsWithAnswer?: true;
  /** Returns a stored answer as a stream. Absent if the endpoint doesn't stream. */
  replayStream?: (answer: unknown, request: Request) => string;
};

/** A call whose response may begin before its answer. It has a run unless it still waits for its envelope. */
export type PendingCall<Request extends ParsedRequest = ParsedRequest> = Pick<
  AdmittedCall<Request>,
  "surface" | "request" | "requestId" | "model"
> & { open: Pick<OpenRun, "hasResponseBegun"> & Partial<Pick<OpenRun, "run">> };

/** An admitted call, with its request and its run. */
export type AdmittedCall<Request extends ParsedRequest = ParsedRequest> = {
  surface: Surface<Request>;
  request: Request;
  requestId: string;
  /** Aborts when the client disconnects, or with an error for the client when the owner of its envelope stops it. */
  clientSignal: AbortSignal;
  /** The model's name in the catalogue. */
  model: string;
  open: OpenRun;
  /** The memory of the body, if it is large. */
  body: Pick<Body, "keepOnly" | "resume"> | undefined;
  /** Whether another provider call may follow this one in the same run. */
  mayContinue?: boolean;
  usageLimits: UsageLimits;
  inputEstimate: CallCounts;
  /** The time by which the whole call must have ended, on the gateway's clock. */
  deadline: number;
};

/** The route of a request, and the workspace that makes the request. */
export type ProviderTarget = {
  route: RunRoute;
  provider: Provider;
  workspaceId: string;
  voice?: string;
  /** The model's context window in tokens. Absent if the catalogue states none. */
  contextWindow?: number;
};
