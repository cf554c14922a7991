import { z } from "zod";
import { isObject } from "../../_shared/json.ts";
import { answerCall } from "../answers/answer-call.ts";
import type { AnswerFormat } from "../answers/answer-format.ts";
import type { Surface } from "../calls/surface.ts";
import { bodyLimits } from "../http/body.ts";
import { GatewayError } from "../http/errors.ts";
import { parseOpenBody } from "../http/parse-body.ts";
import { stringifyWithSource } from "../http/source-json.ts";
import type { ParsedRequest } from "../requests/parsed-request.ts";
import { endUser, modelName } from "../requests/text-fields.ts";
import { estimateInput } from "../usage/estimate.ts";
import { readEmbeddingUsage } from "../usage/read-usage.ts";

const maxInputs = 2_048;
/** Bytes of text that the reservation counts as one token. */
const reservedBytesPerToken = 3;

const maxToken = 0xffffffff;
const mixedInputMessage = "must be all texts, all tokens or all lists of tokens";
const tooManyInputs = `may be ${maxInputs} at most`;

const token = z.number().int().min(0).max(maxToken);
const tokens = z.array(token).min(1);
const text = z.string().min(1);
const memberList = z
  .array(z.union([text, token, tokens]))
  .min(1)
  .refine((all) => new Set(all.map(getInputType)).size === 1, { message: mixedInputMessage })
  .refine((all) => getInputType(all[0]) === "number" || all.length <= maxInputs, { message: tooManyInputs });
/** The body of `POST /v1/embeddings`. */
export const embeddingsSchema = z.object({
  model: modelName,
  input: z.union([text, memberList]),
  dimensions: z.number().int().min(1).max(16_384).optional(),
  encoding_format: z.enum(["float", "base64"]).optional(),
  user: endUser.optional(),
});

type Embeddings = ParsedRequest & { body: z.infer<typeof embeddingsSchema> };

/** The parts of a list of embeddings that the gateway reads. */
export const embeddingList = z.looseObject({ data: z.array(z.unknown()).min(1), usage: z.unknown().optional() });

/** Reads lists of embeddings. */
export const embeddingsFormat: AnswerFormat<Embeddings> = {
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
  maxNumbers: 200_000,
  read(value, bodyBytes) {
    const { list, head } = checkInputList(value);
    const { body, others } = parseOpenBody(embeddingsSchema, head, {});
    if (list) body.input = list;
    const tokenCount = countTokens(body.input);
    return {
      body,
      hints: body.user === undefined ? [] : ["user"],
      ignored: Object.keys(others),
      model: body.model,
      stream: false,
      inputBytes: tokenCount === undefined ? bodyBytes : tokenCount * reservedBytesPerToken,
      images: 0,
      audio: false,
      inputEstimate:
        tokenCount === undefined
          ? estimateInput({ texts: textsOf(body.input) })
          : { input_tokens: tokenCount, output_tokens: 0 },
      outputLimit: 0,
      sizeFields: { input: "input" },
      choices: 1,
    };
  },
  request: ({ body: { user, ...fields } }, { route, provider: { kind } }) => ({
    endpoint: "embeddings",
    body: stringifyWithSource({
      ...fields,
      user: kind.leftOut.includes("user") ? undefined : user,
      model: route.model,
    }),
  }),
  answer: (gateway, call) => answerCall(gateway, call, embeddingsFormat),
};

/**
 * Checks each member of a list, which takes the schema a hundred times as long for an invalid one.
 * @returns the list, and the body with only its first member for the schema to check; or no list
 * @throws GatewayError that names the first invalid member
 */
function checkInputList(body: unknown): { list?: z.infer<typeof memberList>; head: unknown } {
  if (!isObject(body) || !Array.isArray(body.input) || body.input.length === 0) return { head: body };
  const members = body.input;
  const fault = members.findIndex((each) => !isText(each) && !isToken(each) && !isTokens(each));
  if (fault >= 0) throw invalid(`input.${fault}`, "must be a text, a token or a list of tokens");
  const kind = getInputType(members[0]);
  if (members.some((each) => getInputType(each) !== kind)) throw invalid("input", mixedInputMessage);
  if (kind !== "number" && members.length > maxInputs) throw invalid("input", tooManyInputs);
  return { list: members, head: { ...body, input: members.slice(0, 1) } };
}

function isText(value: unknown): boolean {
  return typeof value === "string" && value !== "";
}

function isToken(value: unknown): boolean {
  return Number.isInteger(value) && (value as number) >= 0 && (value as number) <= maxToken;
}

function isTokens(value: unknown): boolean {
  return Array.isArray(value) && value.length > 0 && value.every(isToken);
}

function invalid(param: string, message: string): GatewayError {
  return new GatewayError("invalid_request", { param, message });
}

function getInputType(input: unknown): string {
  return typeof input;
}

function textsOf(input: Embeddings["body"]["input"]): string[] {
  return [input].flat(2).filter((each) => typeof each === "string");
}

/** Returns the number of tokens of a tokenized input, or undefined for text. */
function countTokens(input: Embeddings["body"]["input"]): number | undefined {
  if (typeof input === "string") return undefined;
  return input.reduce<number | undefined>((sum, each) => {
    if (sum === undefined || typeof each === "string") return undefined;
    return sum + (typeof each === "number" ? 1 : each.length);
  }, 0);
}
