import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { readAiPolicy } from "../policy/ai-policy.ts";
import { callGatewayAsMember, endpoints, type PlaygroundEndpoint } from "./call-gateway-as-member.ts";
import { readChatForm } from "./chat-form.ts";
import { answerEntry, type Entry, readWholeAnswer } from "./chat-message.ts";
import { readEmbedded } from "./embedded-answer.ts";
import { type Failure, failureOf, readFailure } from "./failure.ts";
import type { FormAnswer } from "./form-answer.ts";
import { factsOfHeaders } from "./run-facts.ts";
import { maxPlainSpeechCharacters, readEmbeddingsForm, readSpeechForm } from "./single-form.ts";

interface PlaygroundForm {
  kind: PlaygroundEndpoint;
  form: FormData;
  workspaceId: string;
  signal: AbortSignal;
}

const toolCall = z.object({
  id: z.string(),
  type: z.literal("function"),
  function: z.object({ name: z.string(), arguments: z.string() }),
});
const messageSchema = z.discriminatedUnion("role", [
  z.object({ role: z.literal("user"), content: z.string() }),
  z.object({
    role: z.literal("assistant"),
    content: z.string().nullable(),
    refusal: z.string().optional(),
    tool_calls: z.array(toolCall).optional(),
  }),
  z.object({ role: z.literal("tool"), tool_call_id: z.string(), content: z.string() }),
]);
const optionalCount = z.number().optional();
const runFactsSchema = z.object({
  runId: z.string().optional(),
  inputTokens: optionalCount,
  outputTokens: optionalCount,
  costUsd: z.string().optional(),
  billedCredits: z.string().optional(),
  latencyMs: optionalCount,
  firstTokenMs: optionalCount,
  schemaValid: z.boolean().optional(),
});
/** The conversation so far, carried in the form. It belongs to the browser and is shown only there. */
const conversationSoFar = z
  .string()
  .transform((text, { addIssue }) => {
    try {
      return JSON.parse(text);
    } catch {
      addIssue("no JSON");
      return z.NEVER;
    }
  })
  .pipe(
    z.array(
      z.object({
        message: messageSchema,
        facts: runFactsSchema.optional(),
        structured: z.boolean().optional(),
        note: z.string().optional(),
      }),
    ),
  );

/**
 * Handles a playground form posted without JavaScript. Returns the whole answer or the errors. A form with the step
 * `draft` comes from a run's page: it fills in the chat and sends nothing.
 */
export async function answerForm(context: AppLoadContext, input: PlaygroundForm): Promise<FormAnswer> {
  const { kind, form } = input;
  const { conversation: _, ...typed } = Object.fromEntries([...form].map(([name, value]) => [name, String(value)]));
  const base = { typed, errors: {}, failure: null };
  if (typed.step === "draft") return { kind: "chat", ...base, entries: readConversation(form) };
  if (kind === "speech") return { kind, ...base, ...(await answerSpeech(context, input)) };
  if (kind === "embeddings") return { kind, ...base, ...(await answerEmbeddings(context, input)) };
  const chatAnswer = await answerChat(context, input);
  // The conversation now contains the message, so the form's field is emptied.
  return {
    kind,
    ...base,
    ...(chatAnswer.failure || chatAnswer.errors ? {} : { typed: withoutPrompt(typed) }),
    ...chatAnswer,
  };
}

function readConversation(form: FormData): Entry[] {
  return conversationSoFar.safeParse(form.get("conversation")).data ?? [];
}

async function answerChat(context: AppLoadContext, input: PlaygroundForm) {
  const { form } = input;
  const entries = readConversation(form);
  const read = readChatForm(
    form,
    entries.map((entry) => entry.message),
  );
  if ("errors" in read) return { entries, errors: read.errors };
  const { body, added } = read;
  const result = await callGateway(context, { ...input, body }, async (answer) =>
    answerEntry(readWholeAnswer(await answer.text()), body),
  );
  if (result.failure) return { entries, failure: result.failure };
  return { entries: [...entries, ...added.map((each) => ({ message: each })), result.read] };
}

async function answerSpeech(context: AppLoadContext, input: PlaygroundForm) {
  const read = readSpeechForm(input.form, { maxCharacters: maxPlainSpeechCharacters });
  if ("errors" in read) return { sound: null, errors: read.errors };
  const { body } = read;
  const result = await callGateway(context, { ...input, body }, async (answer) => {
    const sound = Buffer.from(await answer.arrayBuffer()).toString("base64");
    const type = body.response_format === "wav" ? "audio/wav" : "application/octet-stream";
    return {
      src: `data:${type};base64,${sound}`,
      format: body.response_format,
      facts: factsOfHeaders(answer.headers),
    };
  });
  return result.failure ? { sound: null, failure: result.failure } : { sound: result.read };
}

async function answerEmbeddings(context: AppLoadContext, input: PlaygroundForm) {
  const read = readEmbeddingsForm(input.form);
  if ("errors" in read) return { embedded: null, errors: read.errors };
  const { body } = read;
  const result = await callGateway(context, { ...input, body }, async (answer) =>
    readEmbedded(await answer.text(), body.input),
  );
  return result.failure ? { embedded: null, failure: result.failure } : { embedded: result.read };
}

type GatewayResult<Value> = { read: Value; failure?: undefined } | { failure: Failure };

async function callGateway<Value>(
  context: AppLoadContext,
  { kind, body, workspaceId, signal }: PlaygroundForm & { body: object },
  read: (answer: Response) => Promise<Value>,
): Promise<GatewayResult<Value>> {
  const { requestId } = context;
  const call = {
    path: endpoints[kind],
    workspaceId,
    signal,
    body: JSON.stringify(body),
    contentType: "application/json",
  };
  const answer = await callGatewayAsMember(context, call).catch((thrown: unknown) => {
    if (thrown instanceof Response) return thrown;
    throw thrown;
  });
  if (!answer.ok) return { failure: { requestId, ...(await readFailure(answer)) } };
  try {
    return { read: await read(answer) };
  } catch {
    return { failure: failureOf({ status: 502, code: "provider_error", requestId }) };
  }
}

function withoutPrompt(typed: Record<string, string>): Record<string, string> {
  return Object.fromEntries(Object.entries(typed).filter(([name]) => name !== "prompt" && !name.startsWith("result")));
}

/**
 * Returns for how many days a workspace stores run content, or null if it stores none or the setting cannot be read.
 */
export async function contentRetentionDays(
  context: AppLoadContext,
  member: { userId: string; workspaceId: string },
): Promise<number | null> {
  const policy = await readAiPolicy(context, member).catch(() => null);
  return policy?.contentCapture ? policy.contentRetentionDays : null;
}
