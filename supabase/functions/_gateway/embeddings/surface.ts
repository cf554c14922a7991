import { z } from "zod";
import { answerCall } from "../answers/answer-call.ts";
import { bodyLimits } from "../http/body.ts";
import { parseOpenBody } from "../http/parse-body.ts";
import { stringifyWithSource } from "../http/source-json.ts";
import { isObject } from "../structured/canonical.ts";
import type { AnswerFormat, Asked, Surface } from "../surface.ts";
import { endUser, modelName } from "../text-fields.ts";
import { estimateInput } from "../usage/estimate.ts";
import { readEmbeddingUsage } from "../usage/read-usage.ts";

const maxInputs = 2_048;
/** Bytes of text that the reservation counts as one token. */
const reservedBytesPerToken = 3;

const token = z.number().int().min(0).max(0xffffffff);
const tokens = z.array(token).min(1);
const text = z.string().min(1);
const list = z
  .array(z.union([text, token, tokens]))
  .min(1)
  .refine((all) => new Set(all.map(kindOf)).size === 1, {
    message: "must be all texts, all tokens or all lists of tokens",
  })
  .refine((all) => kindOf(all[0]) === "number" || all.length <= maxInputs, { message: `may be ${maxInputs} at most` });
/** The body of `POST /v1/embeddings`. */
export const embeddingsSchema = z.object({
  model: modelName,
  input: z.union([text, list]),
  dimensions: z.number().int().min(1).max(16_384).optional(),
  encoding_format: z.enum(["float", "base64"]).optional(),
  user: endUser.optional(),
});

type Embeddings = Asked & { request: z.infer<typeof embeddingsSchema> };

/** The parts of a list of embeddings that the gateway reads. */
export const embeddingList = z.looseObject({ data: z.array(z.unknown()).min(1), usage: z.unknown().optional() });

const format: AnswerFormat<Embeddings> = {
  readAnswer(value, limits) {
    const { success, data } = embeddingList.safeParse(value);
    if (success) return { usage: readEmbeddingUsage(data.usage, limits) };
    return isObject(value) ? { usage: readEmbeddingUsage(value.usage, limits), unreadable: true } : undefined;
  },
};

/** `POST /v1/embeddings`. */
export const embeddingsSurface: Surface<Embeddings> = {
  feature: "embeddings",
  kind: "embedding",
  endpoint: "embeddings",
  limitBytes: bodyLimits.embeddings,
  read(value, bodyBytes) {
    const { request, others } = parseOpenBody(embeddingsSchema, value, {});
    const counted = countTokens(request.input);
    return {
      request,
      hints: request.user === undefined ? [] : ["user"],
      ignored: Object.keys(others),
      model: request.model,
      stream: false,
      inputBytes: counted === undefined ? bodyBytes : counted * reservedBytesPerToken,
      images: 0,
      audio: false,
      inputEstimate:
        counted === undefined
          ? estimateInput({ texts: textsOf(request.input) })
          : { input_tokens: counted, output_tokens: 0 },
      outputLimit: 0,
      sizeFields: { input: "input" },
      choices: 1,
    };
  },
  request: ({ request: { user, ...fields } }, { route, provider: { kind } }) => ({
    endpoint: "embeddings",
    body: stringifyWithSource({
      ...fields,
      user: kind.leftOut.includes("user") ? undefined : user,
      model: route.model,
    }),
  }),
  answer: (gateway, call) => answerCall(gateway, call, format),
};

function kindOf(input: unknown): string {
  return typeof input;
}

function textsOf(input: Embeddings["request"]["input"]): string[] {
  return [input].flat(2).filter((each) => typeof each === "string");
}

/** Returns the number of tokens of a tokenized input, or undefined for text. */
function countTokens(input: Embeddings["request"]["input"]): number | undefined {
  if (typeof input === "string") return undefined;
  return input.reduce<number | undefined>((sum, each) => {
    if (sum === undefined || typeof each === "string") return undefined;
    return sum + (typeof each === "number" ? 1 : each.length);
  }, 0);
}
