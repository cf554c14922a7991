import type { StreamReader } from "./answers/stream-reader.ts";
import type { AdmittedCall } from "./call.ts";
import type { ModelKind, RunRoute } from "./database.ts";
import type { Gateway } from "./gateway.ts";
import type { ErrorShape } from "./http/errors.ts";
import type { Endpoint, tellingHints } from "./providers/kinds/kind.ts";
import type { ProviderRequest } from "./providers/provider.ts";
import type { Provider } from "./providers/provider-settings.ts";
import type { AnswerCheck, SaidTexts } from "./structured/answer-schema.ts";
import type { CallCounts, StatedUsage, UsageLimits } from "./usage/usage.ts";

/** The parts of any call that admission and metering need. */
export type Asked = {
  /** The model's name; absent for the catalogue's default model of the kind. */
  model?: string;
  stream: boolean;
  /** The service tier that the client names. */
  serviceTier?: string;
  /** Bytes of the body without its images and audio: no text has more tokens than bytes. */
  inputBytes: number;
  images: number;
  /** Maximum number of requests with a fee of their own, such as web searches; absent if there are none. */
  feeRequests?: number;
  /** How often the model may read the conversation, because tools run at the provider; once if absent. */
  inputReads?: number;
  audio: boolean;
  /** Seconds of audio in the input; absent if there is none. */
  audioSeconds?: number;
  /** Estimated counts of the input, used if no provider states them. */
  inputEstimate: CallCounts;
  /** Maximum output tokens per choice. */
  outputLimit: number;
  /** Whether `outputLimit` is our default because the client stated none. */
  outputLimitAssumed?: boolean;
  /** The fields that determine how many tokens the call counts. */
  sizeFields: SizeFields;
  choices: number;
  voice?: string;
  /** Members of the body outside the endpoint's schema: they pass to a provider whose kind lists them. */
  others?: Readonly<Record<string, unknown>>;
  /** Members that are left out for a provider whose kind refuses them. */
  hints?: readonly (typeof tellingHints)[number][];
  /** Names that are left out for every provider. */
  ignored?: readonly string[];
  /** Returns whether an answer conforms to the requested schema; absent if there is none, or it can't be checked. */
  keepsSchema?: AnswerCheck;
};

/** The field with the input, and the field in which the client stated an output limit. */
export type SizeFields = { input: string; output?: string };

/** An endpoint: how its calls are read, forwarded and answered. Admission and settlement are the same for all. */
export type Surface<Call extends Asked> = {
  feature: "chat" | "responses" | "messages" | "count_tokens" | "embeddings" | "speech" | "generate";
  kind: ModelKind;
  /** The provider endpoint that the surface needs. */
  endpoint: Endpoint;
  /** A header that may carry the credential in place of `Authorization`. */
  keyHeader?: "x-api-key";
  /** The format of errors; OpenAI's if absent. */
  errors?: ErrorShape;
  limitBytes: number;
  /** Parses a body. @throws GatewayError naming the field or header */
  read: (value: unknown, bodyBytes: number, headers: Headers) => Call;
  /** Returns the agent's session that a body names. */
  session?: (call: Call) => string | undefined;
  request: (call: Call, to: ProviderTarget) => ProviderRequest;
  answer: (gateway: Gateway, call: AdmittedCall<Call>) => Promise<Response>;
  /** Returns a stored answer as a stream's events; absent if the endpoint doesn't stream. */
  replayStream?: (answer: unknown, call: Call) => string;
};

/** The target of a request, and the workspace it is made for. */
export type ProviderTarget = {
  route: RunRoute;
  provider: Provider;
  workspaceId: string;
  voice?: string;
  /** The model's context window in tokens; absent if the catalogue has none. */
  contextWindow?: number;
};

/** How a provider's JSON answers or events are read. */
export type AnswerFormat<Call extends Asked> = {
  /** @returns undefined if it isn't an answer of this kind */
  readAnswer: (value: unknown, limits: UsageLimits) => WholeAnswer | undefined;
  /** Returns the reader of a streamed answer; absent if the endpoint doesn't stream. */
  createReader?: (call: AdmittedCall<Call>) => StreamReader;
};

/** The parts of a whole answer that metering needs. */
export type WholeAnswer = {
  usage?: StatedUsage;
  servedTier?: string;
  /** Matches the start of output strings in the answer's JSON; absent if the output isn't text. */
  output?: RegExp;
  /** Whether the provider reports a failure. */
  failed?: boolean;
  /** Whether the value was corrected in place, so that its text is outdated. */
  corrected?: boolean;
  /** Returns the output texts; a function, because they are rarely needed. */
  said?: () => SaidTexts;
};
