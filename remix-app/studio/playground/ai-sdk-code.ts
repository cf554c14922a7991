import type { ChatBody, ChatMessage } from "./chat-message.ts";
import { typescriptKey, typescriptLiteral } from "./literal.ts";

/** Returns a chat request as code for the AI SDK, which names some parameters differently from OpenAI's clients. */
export function aiSdkChat(body: ChatBody, baseUrl: string): string {
  const { model, messages, temperature, max_completion_tokens, tools = [], response_format: format } = body;
  const instructions = messages.flatMap((message) => (message.role === "system" ? [message.content] : []));
  const chatMessages = messages.filter((message) => message.role !== "system");
  const functions = tools.flatMap(functionOf);
  const providerOptions = optionsFor(body);
  const generate = body.stream ? "streamText" : "generateText";
  const options = [
    `model: gatehouse.chatModel(${JSON.stringify(model)})`,
    ...instructions.map((text) => `instructions: ${JSON.stringify(text)}`),
    `messages: ${typescriptLiteral(modelMessages(chatMessages), 2)}`,
    ...(temperature === undefined ? [] : [`temperature: ${temperature}`]),
    ...(max_completion_tokens === undefined ? [] : [`maxOutputTokens: ${max_completion_tokens}`]),
    ...(functions.length > 0 ? [`tools: {\n${functions.map(toolEntry).join("")}  }`] : []),
    ...(format ? [`output: ${outputOf(format)}`] : []),
    ...(providerOptions ? [`providerOptions: ${typescriptLiteral({ gatehouse: providerOptions }, 2)}`] : []),
  ];
  const imported = [
    generate,
    ...(functions.length > 0 || format?.type === "json_schema" ? ["jsonSchema"] : []),
    ...(format ? ["Output"] : []),
    ...(functions.length > 0 ? ["tool"] : []),
  ];
  const call = `${generate}({\n${options.map((option) => `  ${option},\n`).join("")}})`;
  const shown = body.stream
    ? `const { textStream } = ${call};
for await (const text of textStream) {
  process.stdout.write(text);
}`
    : `const { text } = await ${call};
console.log(text);`;
  return `import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { ${imported.join(", ")} } from "ai";

const gatehouse = createOpenAICompatible({
  name: "gatehouse",
  baseURL: "${baseUrl}",
  apiKey: process.env.GATEHOUSE_API_KEY,
  supportsStructuredOutputs: true,
});

${shown}`;
}

interface FunctionTool {
  name: string;
  description?: string;
  parameters?: unknown;
}

/**
 * Returns a tool's function in a list. The list is empty for tools without a function, which the gateway runs or
 * rejects itself.
 */
function functionOf(tool: unknown): FunctionTool[] {
  const named = (tool as { function?: Partial<FunctionTool> } | null)?.function;
  return typeof named?.name === "string" ? [{ ...named, name: named.name }] : [];
}

function toolEntry({ name, description, parameters = { type: "object", properties: {} } }: FunctionTool): string {
  return `    ${typescriptKey(name)}: tool({
${description === undefined ? "" : `      description: ${JSON.stringify(description)},\n`}      inputSchema: jsonSchema(${typescriptLiteral(parameters, 6)}),
    }),
`;
}

function outputOf(format: NonNullable<ChatBody["response_format"]>): string {
  if (format.type === "json_object") return "Output.json()";
  const { name, schema } = format.json_schema;
  return `Output.object({
    name: ${JSON.stringify(name)},
    schema: jsonSchema(${typescriptLiteral(schema, 4)}),
  })`;
}

function optionsFor({ tools = [], response_format: format }: ChatBody): object | undefined {
  const serverTools = tools.filter((tool) => typeof tool === "string");
  const options = {
    ...(serverTools.length > 0 ? { platform: { tools: serverTools } } : {}),
    ...(format?.type === "json_schema" && !format.json_schema.strict ? { strictJsonSchema: false } : {}),
  };
  return Object.keys(options).length > 0 ? options : undefined;
}

function modelMessages(messages: readonly ChatMessage[]): object[] {
  const names = new Map<string, string>();
  return messages.map((message) => {
    if (message.role === "user") return message;
    if (message.role === "assistant") {
      for (const { id, function: called } of message.tool_calls ?? []) names.set(id, called.name);
      return { role: "assistant", content: assistantContent(message) };
    }
    const { tool_call_id: toolCallId, content } = message;
    const result = { type: "tool-result", toolCallId, toolName: names.get(toolCallId) ?? "" };
    return { role: "tool", content: [{ ...result, output: { type: "text", value: content } }] };
  });
}

function assistantContent({ content, tool_calls: calls = [] }: ChatMessage & { role: "assistant" }): unknown {
  if (calls.length === 0) return content ?? "";
  return [
    ...(content ? [{ type: "text", text: content }] : []),
    ...calls.map(({ id, function: { name, arguments: text } }) => ({
      type: "tool-call",
      toolCallId: id,
      toolName: name,
      input: argumentsOf(text),
    })),
  ];
}

function argumentsOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
