import type { StreamReader } from "./answers/stream-reader.ts";
import type { AdmittedCall } from "./call.ts";
import type { ModelKind, RunRoute } from "./database.ts";
import type { Gateway } from "./gateway.ts";
import type { ErrorShape, GatewayError } from "./http/errors.ts";
import type { Endpoint, tellingHints, UnbilledEnding } from "./providers/kinds/kind.ts";
import type { ProviderRequest } from "./providers/provider.ts";
import type { Provider } from "./providers/provider-settings.ts";
import type { AnswerCheck, SaidTexts } from "./structured/answer-schema.ts";
import type { HourWrites } from "./usage/cache-lifetimes.ts";
import type { CallCounts, StatedUsage, UsageLimits } from "./usage/usage.ts";

/** What admission and metering need to know about any call. */
export type Asked = {
  /** The parsed body. Its input is dropped once it is not needed any more (`forgetInput`). */
  request?: object;
  /** The model's name. Absent for the catalogue's default model. */
  model?: string;
  stream: boolean;
  /** The service tier that the client requests. */
  serviceTier?: string;
  /**
   * Bytes of the body without images, audio and documents, plus three for each token that the documents may have. A
   * text never has more tokens than bytes.
   */
  inputBytes: number;
  images: number;
  /** Maximum number of requests with a separate fee, such as web searches. Absent if there are none. */
  feeRequests?: number;
  /**
   * Maximum number of times that the model reads the input. Tools that run at the provider add reads. Absent means
   * once.
   */
  inputReads?: number;
  audio: boolean;
  /** Seconds of audio in the input. Absent if there is none. */
  audioSeconds?: number;
  /** The cache writes that the request asks to keep for an hour. Absent if there are none. */
  hourWrites?: HourWrites;
  /** Estimated token counts of the input, used if the provider states none. */
  inputEstimate: CallCounts;
  /** The tokens that the input probably has at most, if documents make its maximum much larger. */
  expectedTokens?: number;
  /** Whether the call costs nothing, so that no budget refuses it. */
  isFree?: true;
  /** Whether the size of a document could not be read, so that the estimate may be far off. */
  hasUnmeasuredInput?: boolean;
  /** Maximum output tokens per choice. */
  outputLimit: number;
  /** Whether `outputLimit` is our default because the client stated none. */
  outputLimitAssumed?: boolean;
  /** The fields that a refusal names if the call is too large. */
  sizeFields: SizeFields;
  choices: number;
  voice?: string;
  /** Members of the body outside the endpoint's schema. They pass only to a provider whose kind lists them. */
  others?: Readonly<Record<string, unknown>>;
  /** Hints in the request, which are left out for a provider whose kind refuses them. */
  hints?: readonly (typeof tellingHints)[number][];
  /** Names of request fields and tools that no provider receives. */
  ignored?: readonly string[];
  /**
   * Returns whether an answer conforms to the requested schema. Absent if no schema was requested or if the schema
   * can't be checked.
   */
  keepsSchema?: AnswerCheck;
};

/**
 * The fields that determine the size of a call: the input field, and the field with the client's output limit, if any.
 */
export type SizeFields = { input: string; output?: string };

/**
 * Defines how the calls of an endpoint are read, forwarded and answered. Admission and settlement are the same for all.
 */
export type Surface<Call extends Asked> = {
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
  read: (value: unknown, bodyBytes: number, headers: Headers) => Call;
  /** Returns the agent session that the body states. */
  session?: (call: Call) => string | undefined;
  request: (call: Call, to: ProviderTarget) => ProviderRequest;
  answer: (gateway: Gateway, call: AdmittedCall<Call>) => Promise<Response>;
  /**
   * Returns what keeps a silent stream alive: an event that this API's clients count as activity. Defaults to a comment.
   */
  keepalive?: (call: AdmittedCall<Call>) => string;
  /** Returns the event that ends a stream with an error, if it depends on the keepalives before. */
  failure?: (error: GatewayError, call: AdmittedCall<Call>) => string;
  /** Whether a response can't begin before its answer is complete, because it is neither a stream nor JSON. */
  beginsWithAnswer?: true;
  /** Returns a stored answer as a stream. Absent if the endpoint doesn't stream. */
  replayStream?: (answer: unknown, call: Call) => string;
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

/** Defines how the answers and streams of a provider are read. */
export type AnswerFormat<Call extends Asked> = {
  /**
   * Reads a whole answer. If it isn't in the surface's format, reads only the usage that it states.
   * @returns undefined if the value isn't an object
   */
  readAnswer: (value: unknown, limits: UsageLimits) => WholeAnswer | undefined;
  /**
   * Creates a reader for a streamed answer. Absent if the endpoint doesn't stream. `isRelayed` says whether the client
   * gets what the reader reads.
   */
  createReader?: (call: AdmittedCall<Call>, options?: { isRelayed: boolean }) => StreamReader;
};

/** The parts of a whole answer that metering needs. */
export type WholeAnswer = {
  usage?: StatedUsage;
  servedTier?: string;
  /** Matches the start of output strings in the answer's JSON. Absent if the output isn't text. */
  output?: RegExp;
  /** Whether the provider reports a failure. */
  failed?: boolean;
  /** Whether the answer isn't in the surface's format. */
  unreadable?: boolean;
  /** How the answer ended, if some providers don't bill such answers. */
  ending?: UnbilledEnding;
  /** Whether the value was changed in place, so that the original text is outdated. */
  corrected?: boolean;
  /** Returns the output texts. A function, because they are rarely needed. */
  said?: () => SaidTexts;
};
