import { type ChatBody, type ChatMessage, openToolCalls } from "./chat-message.ts";

/** The fields of the playground's chat. Tool results are `result0`, `result1` … in the order of the calls. */
export type ChatField =
  | "model"
  | "system"
  | "temperature"
  | "maxOutputTokens"
  | "tools"
  | "format"
  | "schema"
  | "strict"
  | "prompt";

export type FieldErrors = Record<string, string>;

/** Limits of an answer, the same as the gateway's. */
export const outputTokens = { default: 2_048, max: 32_768 } as const;
export const maxTemperature = 2;

/** The name of an answer's schema. Providers require a name but do not use it. */
const schemaName = "answer";

type Settings = Omit<ChatBody, "messages" | "stream">;

/**
 * Reads the form into the next request of a conversation.
 * @returns the whole request and its additions to the conversation, or the errors by field
 */
export function readChatForm(
  form: FormData,
  conversation: readonly ChatMessage[],
): { body: ChatBody; added: ChatMessage[] } | { errors: FieldErrors } {
  const errors: FieldErrors = {};
  const settings = readSettings(form, errors);
  const added = readAddedMessages(form, conversation, errors);
  if (Object.keys(errors).length > 0) return { errors };
  const { model, ...rest } = settings;
  return { body: { model, messages: [...systemOf(form), ...conversation, ...added], ...rest }, added };
}

/**
 * Returns the request that the form describes, to be shown as code. Omits fields that cannot be read. If nothing is
 * typed, repeats the conversation's last question, or uses a greeting.
 */
export function draftChat(form: FormData, conversation: readonly ChatMessage[]): ChatBody {
  const { model, ...rest } = readSettings(form, {});
  const added = readAddedMessages(form, conversation, {});
  const history = added.length > 0 ? conversation : conversation.slice(0, lastQuestion(conversation) + 1);
  const allMessages = [...history, ...added];
  const messages = allMessages.length > 0 ? allMessages : [{ role: "user" as const, content: "Hello" }];
  return { model, messages: [...systemOf(form), ...messages], ...rest };
}

function lastQuestion(conversation: readonly ChatMessage[]): number {
  return conversation.findLastIndex(({ role }) => role !== "assistant");
}

function systemOf(form: FormData): ChatBody["messages"] {
  const content = textOf(form, "system").trim();
  return content === "" ? [] : [{ role: "system", content }];
}

function readSettings(form: FormData, errors: FieldErrors): Settings {
  const model = textOf(form, "model");
  if (model === "") errors.model = "Choose a model.";
  const temperature = readNumber(form, "temperature");
  if (temperature !== undefined && !(temperature >= 0 && temperature <= maxTemperature)) {
    errors.temperature = `Enter a temperature from 0 to ${maxTemperature}, or leave it empty.`;
  }
  const limit = readNumber(form, "maxOutputTokens");
  if (limit !== undefined && !(Number.isInteger(limit) && limit >= 1 && limit <= outputTokens.max)) {
    errors.maxOutputTokens = `Enter an output limit from 1 to ${outputTokens.max}, or leave it empty.`;
  }
  const tools = readTools(form, errors);
  const format = readFormat(form, errors);
  return {
    model,
    ...(temperature === undefined || errors.temperature ? {} : { temperature }),
    ...(limit === undefined || errors.maxOutputTokens ? {} : { max_completion_tokens: limit }),
    ...(tools ? { tools } : {}),
    ...(format ? { response_format: format } : {}),
  };
}

function readTools(form: FormData, errors: FieldErrors): unknown[] | undefined {
  const text = textOf(form, "tools").trim();
  if (text === "") return undefined;
  const tools = parseJson(text);
  if (Array.isArray(tools.value) && tools.value.length > 0) return tools.value;
  errors.tools = `Enter a JSON array of tools, or leave it empty.${tools.fault ? ` ${tools.fault}` : ""}`;
  return undefined;
}

function readFormat(form: FormData, errors: FieldErrors): ChatBody["response_format"] {
  const format = textOf(form, "format");
  if (format === "json_object") return { type: "json_object" };
  if (format !== "json_schema") return undefined;
  const { value, fault } = parseJson(textOf(form, "schema"));
  if (typeof value === "object" && value !== null && !Array.isArray(value)) {
    const schema = value as Record<string, unknown>;
    return { type: "json_schema", json_schema: { name: schemaName, schema, strict: form.get("strict") === "on" } };
  }
  errors.schema = `Enter a JSON schema.${fault ? ` ${fault}` : ""}`;
  return undefined;
}

function readAddedMessages(form: FormData, conversation: readonly ChatMessage[], errors: FieldErrors): ChatMessage[] {
  const calls = openToolCalls(conversation);
  if (calls.length > 0) {
    return calls.map(({ id }, index) => {
      const content = textOf(form, `result${index}`);
      if (content.trim() === "") errors[`result${index}`] = "Enter the tool’s result.";
      return { role: "tool", tool_call_id: id, content };
    });
  }
  const prompt = textOf(form, "prompt");
  if (prompt.trim() === "") errors.prompt = "Write a message.";
  return prompt.trim() === "" ? [] : [{ role: "user", content: prompt }];
}

function parseJson(text: string): { value?: unknown; fault?: string } {
  try {
    return { value: JSON.parse(text) };
  } catch (error) {
    return { fault: `This isn’t JSON: ${error instanceof Error ? error.message : String(error)}.` };
  }
}

/** @returns NaN if the text is not a number */
function readNumber(form: FormData, name: ChatField): number | undefined {
  const text = textOf(form, name).trim();
  return text === "" ? undefined : Number(text);
}

function textOf(form: FormData, name: string): string {
  const value = form.get(name);
  // Forms send CRLF, while the page's own values have LF.
  return typeof value === "string" ? value.replaceAll("\r\n", "\n") : "";
}
