import type { SizeFields } from "../../_shared/refusal-message.ts";
import type { clientHints } from "../providers/kinds/kind.ts";
import type { Provider } from "../providers/provider-settings.ts";
import type { AnswerCheck } from "../structured/answer-schema.ts";
import type { HourWrites } from "../usage/cache-lifetimes.ts";
import type { CallCounts } from "../usage/usage.ts";

/** A parsed request, with what admission and metering need to know about any call. */
export type ParsedRequest = {
  /** The parsed body. Its input is dropped once it is not needed any more (`dropInput`). */
  body?: object;
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
  hints?: readonly (typeof clientHints)[number][];
  /** Names of request fields and tools that no provider receives. */
  ignored?: readonly string[];
  /**
   * Returns whether an answer conforms to the requested schema. Absent if no schema was requested or if the schema
   * can't be checked.
   */
  checkAnswer?: AnswerCheck;
};

/**
 * Drops the input of a request that was sent to a provider for the last time, so that a long answer doesn't keep it in
 * memory. Reading the answer needs only `stream_options`, and the names of the other members.
 */
export function dropInput(request: ParsedRequest): void {
  if (request.body) request.body = mapMembers(request.body, withoutContent);
  if (request.others) request.others = mapMembers(request.others, () => true);
}

function mapMembers(members: object, map: (value: unknown, name: string) => unknown): Record<string, unknown> {
  return Object.fromEntries(Object.entries(members).map(([name, value]) => [name, map(value, name)]));
}

function withoutContent(value: unknown, name: string): unknown {
  if (Array.isArray(value)) return [];
  if (typeof value === "string") return "";
  return typeof value === "object" && name !== "stream_options" ? undefined : value;
}

const maxIgnored = 100;
const maxNameLength = 128;

/** Returns the names of the members and tools that the request's provider did not receive. */
export function ignoredNames({ ignored = [], others = {}, hints = [] }: ParsedRequest, provider?: Provider): string[] {
  const ignoredMembers = Object.keys(others).filter((name) => !provider?.kind.passes?.includes(name));
  const ignoredHints = hints.filter((name) => provider?.kind.leftOut.includes(name));
  return [...new Set([...ignored, ...ignoredMembers, ...ignoredHints])]
    .slice(0, maxIgnored)
    .map((name) => name.slice(0, maxNameLength));
}
