import type { AdmittedCall } from "../calls/surface.ts";
import type { UnbilledEnding } from "../providers/kinds/kind.ts";
import type { ParsedRequest } from "../requests/parsed-request.ts";
import type { OutputTexts } from "../structured/answer-schema.ts";
import type { StatedUsage, UsageLimits } from "../usage/usage.ts";
import type { StreamReader } from "./stream-reader.ts";

/** Defines how the answers and streams of a provider are read. */
export type AnswerFormat<Request extends ParsedRequest> = {
  /**
   * Reads a whole answer. If it isn't in the surface's format, reads only the usage that it states.
   * @returns undefined if the value isn't an object
   */
  readAnswer: (value: unknown, limits: UsageLimits) => WholeAnswer | undefined;
  /**
   * Creates a reader for a streamed answer. Absent if the endpoint doesn't stream. `isRelayed` says whether the client
   * gets what the reader reads.
   */
  createReader?: (call: AdmittedCall<Request>, options?: { isRelayed: boolean }) => StreamReader;
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
  texts?: () => OutputTexts;
};
