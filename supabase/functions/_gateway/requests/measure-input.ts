import { stringifyWithSource } from "../http/source-json.ts";
import { bytesPerReservedToken, type DocumentTokens } from "../usage/documents.ts";
import { estimateInput, estimateMargin, type InputParts } from "../usage/estimate.ts";
import type { ParsedRequest } from "./parsed-request.ts";

/** The input of a request. `mediaBytes` is the part of the body that is not text. */
type Input = InputParts & { images: number; documents: DocumentTokens; mediaBytes: number };

/**
 * Returns the estimated and the maximum size of a request's input.
 * @param options.definitions the tools and the answer's format, whose texts the model reads too
 * @param options.addedBytes the size of what the gateway adds to the body
 */
export function measureInput(
  input: Input,
  options: { bodyBytes: number; definitions: readonly unknown[]; addedBytes: number },
): Pick<ParsedRequest, "images" | "inputEstimate" | "expectedTokens" | "hasUnmeasuredInput" | "inputBytes"> {
  const { images, documents, mediaBytes, texts } = input;
  const definitions = options.definitions.map((each) => (each ? stringifyWithSource(each) : ""));
  const inputEstimate = estimateInput({
    ...input,
    documentTokens: documents.estimate,
    texts: [...texts, ...definitions],
  });
  const expectedTokens = Math.ceil(inputEstimate.input_tokens * estimateMargin);
  return {
    images,
    inputEstimate,
    ...(documents.maximum > 0 ? { expectedTokens } : {}),
    hasUnmeasuredInput: !documents.isMeasured,
    inputBytes: options.bodyBytes - mediaBytes + documents.maximum * bytesPerReservedToken + options.addedBytes,
  };
}
