import type { TokenCounts } from "../_shared/money.ts";
import type { AdmittedCall } from "./call.ts";
import type { RunRoute } from "./database.ts";
import type { Gateway } from "./gateway.ts";
import type { StreamReader } from "./stream-reader.ts";
import type { UsageBound } from "./usage.ts";

/** What every call asks, as far as admission and metering need to know. */
export type Asked = {
  model: string;
  stream: boolean;
  /** Bytes of the body that count as text: all but the images'. */
  inputBytes: number;
  images: number;
  audio: boolean;
  /** Tokens of output at most, of each choice. */
  outputLimit: number;
  choices: number;
};

/** A whole answer, as far as metering needs to know. */
export type WholeAnswer = {
  usage?: Required<TokenCounts>;
  /** Bytes of what was written, to guess by where no usage is stated. */
  outputBytes: number;
  /** The provider says that it failed. */
  failed?: boolean;
};

/** An OpenAI-compatible endpoint: how its calls are read, passed on and metered. All else is the same for each. */
export type Surface<Call extends Asked> = {
  feature: "chat" | "responses" | "embeddings";
  kind: "chat" | "embedding";
  /** Below the provider's base URL. */
  path: string;
  limitBytes: number;
  /** Parses a body. @throws GatewayError naming the field */
  read: (value: unknown, bodyBytes: number) => Call;
  providerBody: (call: Call, to: { route: RunRoute; workspaceId: string }) => string;
  /** @returns undefined for what is no answer of this kind */
  readAnswer: (value: unknown, bound: UsageBound) => WholeAnswer | undefined;
  /** Reads a streamed answer; absent where there is none. */
  createReader?: (call: Call, options: { usageBound: UsageBound; runId: string }) => StreamReader;
  /** Answers a call in another way than by one provider call. */
  answer?: (gateway: Gateway, call: AdmittedCall<Call>) => Promise<Response>;
};
