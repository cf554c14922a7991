import { z } from "zod";
import { isObject } from "../../_shared/json.ts";
import { stringifyWithSource } from "../http/source-json.ts";

/**
 * Output limits in tokens. `whole` applies to a non-streamed response whose request states no limit. Most models can
 * write about that many tokens before the response times out.
 */
export const outputLimits = { default: 2_048, whole: 8_192, max: 32_768 } as const;
const maxSchemaCharacters = 100_000;

/** Fields that chat completions and responses have in common. */
export const modelName = z.string().min(1).max(128);
export const outputLimit = z.number().int().min(1).max(outputLimits.max);
export const probability = z.number().min(0).max(1);
export const temperature = z.number().min(0).max(2);
export const functionName = z.string().regex(/^[A-Za-z0-9_-]{1,64}$/);
/** Includes `default`, which Groq accepts (https://console.groq.com/docs/reasoning). */
export const reasoningEffort = z.enum(["none", "default", "minimal", "low", "medium", "high", "xhigh", "max"]);
export const verbosity = z.enum(["low", "medium", "high"]);
export const metadata = z.record(z.string().max(64), z.string().max(512));
export const endUser = z.string().max(512);
export const imageUrl = z.string().regex(/^(https:\/\/|data:image\/)/, "must be an https or data URL of an image");
export const imageDetail = z.enum(["auto", "low", "high", "original"]);

export const storedFileAdvice = "A stored file may be another tenant's: send its content.";
/** Rejects a file that is stored at the provider. */
export const storedFile = z.never({ error: storedFileAdvice }).optional();

/**
 * A file whose content is in the request. Files stored at the provider are refused, because they may belong to another
 * tenant. Files at a URL are refused, because they may have any size.
 */
export const fileData = z.looseObject({
  file_id: storedFile,
  file_url: z.never({ error: "Send the file's content as file_data." }).optional(),
  // Rejects URLs, because OpenRouter would fetch them: https://openrouter.ai/docs/guides/overview/multimodal/pdfs
  file_data: z.string().regex(/^(data:|[\w+/=\s-]+$)/i, "must be base64 or a data URL"),
  filename: z.string().optional(),
});
/** A tool to which `allowed_tools` refers. */
export const namedTool = z.looseObject({ type: z.string() });

const media = [
  "audio_embeds",
  "audio_url",
  "file",
  "file_data",
  "file_id",
  "file_url",
  "image_embeds",
  "image_pil",
  "image_url",
  "input_audio",
  "prompt_embeds",
  "uuid",
  "video_embeds",
  "video_url",
];

/**
 * A zod `superRefine` check that refuses media in a content part of the wrong type, such as an `image_url` in a text
 * part. The gateway would not count such media, but vLLM reads them. A part's `uuid` even makes vLLM load cached media,
 * including media that another tenant sent.
 */
export function refuseOtherMedia(part: { type: string }, context: z.RefinementCtx): void {
  const own = part.type === "input_image" ? "image_url" : part.type === "input_file" ? "file_data" : part.type;
  const name = media.find((each) => each !== own && Object.hasOwn(part, each));
  const message = name === "file_id" ? storedFileAdvice : "Send media in a part of its own type.";
  if (name) context.addIssue({ code: "custom", path: [name], message });
}

/** Counts Unicode characters, some of which take two UTF-16 units. */
export function countCharacters(text: string): number {
  let count = 0;
  for (const _ of text) count += 1;
  return count;
}

/**
 * An object that the gateway passes to the provider unchanged. A zod object schema would copy the object, and the copy
 * would lose its source text.
 */
export const jsonObject = z
  .unknown()
  .refine(isObject, { message: "must be an object", abort: true })
  .meta({ type: "object" }) as unknown as z.ZodType<Record<string, unknown>>;

const namedFields = { name: functionName, description: z.string().optional() };
const strict = z.boolean().optional();
/** A function that the client runs, a custom tool, and the JSON Schema that an answer must conform to. */
export const functionFields = { ...namedFields, parameters: jsonObject.optional(), strict };
export const customToolFields = { ...namedFields, format: jsonObject.optional() };
export const answerSchemaFields = {
  ...namedFields,
  schema: jsonObject.refine((schema) => countCharacters(stringifyWithSource(schema)) <= maxSchemaCharacters, {
    message: `may have ${maxSchemaCharacters} characters at most`,
  }),
  strict,
};

/**
 * Returns whether an argument of a chat template (`apply_chat_template` of github.com/huggingface/transformers) is a
 * switch that the template itself defines. Other arguments aren't safe. For example, the server would run the code in
 * `chat_template` (github.com/vllm-project/vllm/pull/25794), and `tokenize` blocks the server.
 */
const isTemplateSwitch = (name: string, value: unknown) =>
  !/^(chat_template|tokenize|tokenizer_kwargs|return_.*|padding|truncation|max_length)$/.test(name) &&
  (typeof value === "boolean" ||
    typeof value === "number" ||
    (typeof value === "string" && /^[\w.-]{0,64}$/.test(value)));

/**
 * Removes all arguments except template switches from `chat_template_kwargs`.
 * @returns `others` without these arguments, and the names of the removed arguments
 */
export function leaveOutTemplates(others: Record<string, unknown>): {
  others: Record<string, unknown>;
  ignored: string[];
} {
  const { chat_template_kwargs: switches, ...rest } = others;
  if (switches === undefined) return { others, ignored: [] };
  if (!isObject(switches)) return { others: rest, ignored: ["chat_template_kwargs"] };
  const ignored = Object.keys(switches).filter((name) => !isTemplateSwitch(name, switches[name]));
  if (ignored.length === 0) return { others, ignored };
  const allowed = Object.entries(switches).filter(([name]) => !ignored.includes(name));
  return {
    others: { ...rest, chat_template_kwargs: Object.fromEntries(allowed) },
    ignored: ignored.map((name) => `chat_template_kwargs.${name}`),
  };
}
