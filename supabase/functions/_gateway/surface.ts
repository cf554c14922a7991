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

/** What every call asks, as far as admission and metering need to know. */
export type Asked = {
  /** Absent: the catalogue's default of the kind. */
  model?: string;
  stream: boolean;
  /** The service tier that the client names. */
  serviceTier?: string;
  /** Bytes of the body without its images and audio: no text has more tokens than bytes. */
  inputBytes: number;
  images: number;
  /** Requests with a fee of their own that the call may make at most, such as web searches; absent where there are none. */
  feeRequests?: number;
  /** How often the model may read the conversation, because tools run at the provider; once where absent. */
  inputReads?: number;
  audio: boolean;
  /** Seconds of audio in the input; absent where there is none. */
  audioSeconds?: number;
  /** What the input counts where no provider states it. */
  inputEstimate: CallCounts;
  /** Tokens of output at most, of each choice. */
  outputLimit: number;
  /** Whether `outputLimit` is our default because the client stated none. */
  outputLimitAssumed?: boolean;
  /** The fields that decide how many tokens the call counts. */
  sizeFields: SizeFields;
  choices: number;
  voice?: string;
  /** Members of the body that are not the endpoint's: they pass to a provider whose kind lists them. */
  others?: Readonly<Record<string, unknown>>;
  /** The members that are left out for a provider whose kind refuses them. */
  hints?: readonly (typeof tellingHints)[number][];
  /** Names that are left out for every provider. */
  ignored?: readonly string[];
  /** Whether an answer keeps to the schema that was asked for; absent where none was, or it cannot be told. */
  keepsSchema?: AnswerCheck;
};

/** The field with the input, and the one in which the client stated an output limit. */
export type SizeFields = { input: string; output?: string };

/** An endpoint: how its calls are read, passed on and answered. Admission and settlement are the same for each. */
export type Surface<Call extends Asked> = {
  feature: "chat" | "responses" | "messages" | "count_tokens" | "embeddings" | "speech" | "generate";
  kind: ModelKind;
  /** What of a provider it needs. */
  endpoint: Endpoint;
  /** A header that may carry the credential in place of `Authorization`. */
  keyHeader?: "x-api-key";
  /** Absent: OpenAI's. */
  errors?: ErrorShape;
  limitBytes: number;
  /** Parses a body. @throws GatewayError naming the field or header */
  read: (value: unknown, bodyBytes: number, headers: Headers) => Call;
  /** The agent's session that a body names. */
  session?: (call: Call) => string | undefined;
  request: (call: Call, to: ProviderTarget) => ProviderRequest;
  answer: (gateway: Gateway, call: AdmittedCall<Call>) => Promise<Response>;
  /** Says a kept answer as a stream's events; absent where nothing is streamed. */
  replayStream?: (answer: unknown, call: Call) => string;
};

/** Whom a request is for, and in whose name. */
export type ProviderTarget = { route: RunRoute; provider: Provider; workspaceId: string; voice?: string };

/** How a provider's answers of JSON or events are read. */
export type AnswerFormat<Call extends Asked> = {
  /** @returns undefined for what is no answer of this kind */
  readAnswer: (value: unknown, limits: UsageLimits) => WholeAnswer | undefined;
  /** Reads a streamed answer; absent where there is none. */
  createReader?: (call: AdmittedCall<Call>) => StreamReader;
};

/** A whole answer, as far as metering needs to know. */
export type WholeAnswer = {
  usage?: StatedUsage;
  servedTier?: string;
  /** Where the strings of the answer's JSON that are output begin; absent where the output is not text. */
  output?: RegExp;
  /** The provider says that it failed. */
  failed?: boolean;
  /** The value was corrected in place, so its text is outdated. */
  corrected?: boolean;
  /** Read when it is asked for: few want to know. */
  said?: () => SaidTexts;
};
