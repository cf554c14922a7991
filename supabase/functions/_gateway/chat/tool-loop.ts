import {
  askProvider,
  endWhole,
  guessedUse,
  readAnswer,
  settleFailure,
  streamedResponse,
  wholeResponse,
} from "../answer-call.ts";
import type { AdmittedCall } from "../call.ts";
import type { Gateway } from "../gateway.ts";
import { ClientLeft } from "../providers/provider.ts";
import { relayStream, type StreamStep } from "../relay.ts";
import type { CallUse } from "../run.ts";
import { runTool } from "../tools/server-tools.ts";
import { boundUsage, guessInputTokens, ImplausibleUsage } from "../usage.ts";
import { withPlatform } from "../whole-answer.ts";
import { chatFormat } from "./answer.ts";
import { createAssembly } from "./assembly.ts";
import { assistantMessage, type ModelMessage, readMessage } from "./message.ts";
import type { Chat } from "./request.ts";
import { type AnswerName, createStepReader, type StepReader } from "./tool-events.ts";
import type { ServerTools } from "./tool-request.ts";
import { addUsage } from "./total-usage.ts";

type ChatCall = AdmittedCall<Chat>;

/** A model that calls more tools at once is told no further results. */
const maxToolCallsAStep = 32;

/**
 * Answers a chat with the gateway's own tools: model, tools, model, … until the model calls none, or its steps are used
 * up. Each further step is reserved before it is made.
 */
export async function answerWithTools(gateway: Gateway, call: ChatCall, serverTools: ServerTools): Promise<Response> {
  const loop = createLoop(gateway, call, serverTools);
  try {
    return call.asked.stream ? await streamed(gateway, call, loop) : await whole(gateway, call, loop);
  } catch (error) {
    throw settleFailure(error, loop.current());
  }
}

type Loop = ReturnType<typeof createLoop>;

/** Where the conversation stands: the step's own call, and the way to the next one. */
function createLoop(gateway: Gateway, call: ChatCall, { maxSteps, tools }: ServerTools) {
  const { open, asked } = call;
  const startedAt = gateway.now();
  const messages = [...asked.request.messages];
  let step = 1;
  let addedBytes = 0;

  const isLast = () => step >= maxSteps;

  function current(): ChatCall {
    const { tool_choice, ...request } = asked.request;
    // Whom the client wants called is called once; whoever has no step left cannot call.
    const choice = isLast() ? "none" : step === 1 ? tool_choice : undefined;
    const stepAsked = {
      ...asked,
      request: { ...request, messages, ...(choice === undefined ? {} : { tool_choice: choice }) },
      inputBytes: asked.inputBytes + addedBytes,
    };
    return {
      ...call,
      asked: stepAsked,
      usageBound: boundUsage(stepAsked, () => gateway.report(new ImplausibleUsage(), call.requestId)),
      guessedInputTokens: guessInputTokens(stepAsked),
    };
  }

  /** Runs the tools that the model has called, and reserves its next step. @throws GatewayError where that is refused */
  async function advance(message: ModelMessage, use: CallUse): Promise<void> {
    open.finishCall(use);
    const results = message.toolCalls.map((toolCall, index) => {
      const began = gateway.now();
      const time = new Date(Date.parse(open.run.created_at) + gateway.now() - startedAt);
      const offered = index < maxToolCallsAStep ? tools : [];
      const { succeeded, content } = runTool({ ...toolCall, offered }, { time });
      open.content.noteTool({ name: toolCall.name, arguments: toolCall.arguments, result: content });
      // A name that the model made up says nothing, and could say anything.
      const name = tools.find((tool) => tool === toolCall.name) ?? "unknown";
      open.addStep({ type: "tool", name, status: succeeded ? "succeeded" : "failed" }, began);
      return { role: "tool", tool_call_id: toolCall.id, content };
    });
    const added = [assistantMessage(message), ...results];
    messages.push(...added);
    addedBytes += new TextEncoder().encode(JSON.stringify(added)).length;
    step += 1;
    const { run } = open;
    const { inputBytes, images, audio, outputLimit } = current().asked;
    const reserved = await gateway.database.extendRun({
      created_at: run.created_at,
      id: run.run_id,
      input_bytes: inputBytes,
      images,
      audio,
      output_limit: outputLimit,
    });
    Object.assign(run, reserved);
  }

  return { current, advance, isLast, isFirst: () => step === 1 };
}

async function whole(gateway: Gateway, call: ChatCall, loop: Loop): Promise<Response> {
  for (;;) {
    const answer = await askProvider(gateway, loop.current());
    const read = await readAnswer(loop.current(), answer, chatFormat);
    const message = readMessage(read.value);
    if (message.toolCalls.length === 0 || loop.isLast()) {
      const earlier = call.open.usedSoFar();
      const text = (platform: Record<string, unknown>) =>
        loop.isFirst()
          ? withPlatform(read, platform)
          : JSON.stringify({ ...read.value, usage: addUsage(read.value.usage, earlier), platform });
      return wholeResponse(call, text(endWhole(call, answer, { use: read.use, answer: { said: read.said, text } })));
    }
    await loop.advance(message, read.use);
  }
}

async function streamed(gateway: Gateway, call: ChatCall, loop: Loop): Promise<Response> {
  const { open, asked, model, request, requestId } = call;
  const name: AnswerName = { created: 0, model };
  const assembly = asked.keepsSchema || open.run.capture ? createAssembly() : undefined;
  let reader: StepReader;

  async function ask(): Promise<StreamStep> {
    const stepCall = loop.current();
    const answer = await askProvider(gateway, stepCall);
    reader = createStepReader({
      name,
      first: loop.isFirst(),
      last: loop.isLast(),
      keepUsageChunk: asked.request.stream_options?.include_usage === true,
      earlier: open.usedSoFar(),
      usageBound: stepCall.usageBound,
      assembly,
    });
    return { answer, reader, guessedInputTokens: stepCall.guessedInputTokens };
  }

  async function next({ answer }: StreamStep, use: CallUse): Promise<StreamStep | undefined> {
    const message = reader.message();
    if (message.toolCalls.length === 0 || loop.isLast()) return undefined;
    open.addStep({ type: "model", name: model, status: "succeeded" }, answer.startedAt);
    await loop.advance(message, use);
    try {
      return await ask();
    } catch (error) {
      if (error instanceof ClientLeft) error.use = guessedUse(loop.current());
      throw error;
    }
  }

  const step = await ask();
  const stream = relayStream({
    step,
    next,
    open,
    requestId,
    name: model,
    clientLeft: request.signal,
    waitUntil: gateway.waitUntil,
  });
  return streamedResponse(call, stream);
}
