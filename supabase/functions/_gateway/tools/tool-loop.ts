import type { TokenCounts } from "../../_shared/money.ts";
import {
  estimateUse,
  relayResponse,
  requestStream,
  requestWholeAnswer,
  respondToFailure,
  settleWholeAnswer,
  wholeResponse,
} from "../answers/answer-call.ts";
import type { AnswerFormat } from "../answers/answer-format.ts";
import type { StreamReader } from "../answers/stream-reader.ts";
import type { StreamStep } from "../answers/stream-step.ts";
import { addPlatform, readWholeAnswer } from "../answers/whole-answer.ts";
import type { Gateway } from "../calls/gateway.ts";
import type { AdmittedCall } from "../calls/surface.ts";
import { changeReservation } from "../envelopes/envelope-room.ts";
import { ClientLeft } from "../providers/provider-failure.ts";
import type { ParsedRequest } from "../requests/parsed-request.ts";
import { estimateTokens } from "../usage/estimate.ts";
import type { CallUse, UsageLimits } from "../usage/usage.ts";
import { runTool } from "./run-tool.ts";
import type { ServerTools } from "./tool-request.ts";

/** A tool call made by a model. */
export type ToolCall = { id: string; name: string; arguments: string };

/** A model's output in one step, and the tool calls in that output. The next request includes the output. */
export type Turn = { output: readonly object[]; toolCalls: readonly ToolCall[] };

/** One step of a conversation: whether it is the first or the last, and the usage of earlier steps. */
export type Step = { first: boolean; last: boolean; earlier: TokenCounts; usageLimits: UsageLimits };

/** Defines how conversations with tools work in one of the gateway's APIs. */
export type ToolDialect<Parsed extends ParsedRequest> = {
  format: Pick<AnswerFormat<Parsed>, "readAnswer">;
  /**
   * Returns the request of a step, including the messages added to the conversation. Disables tools on the last step.
   */
  stepRequest: (request: Parsed, step: { first: boolean; last: boolean; additions: readonly object[] }) => Parsed;
  /** Reads the model's output from a complete answer. */
  readTurn: (answer: unknown) => Turn;
  /** Returns a tool's result in the format that the model expects. */
  toolResult: (call: ToolCall, content: string) => object;
  /**
   * Builds the answer that the client receives: the last step's answer without tool calls, with the output and usage of
   * earlier steps added.
   */
  wholeAnswer: (last: Record<string, unknown>, before: { answers: unknown[]; usage: TokenCounts }) => object;
  /** Creates the readers for the steps of a streamed conversation. */
  createReaders: (call: AdmittedCall<Parsed>) => (step: Step) => StepReader;
};

/** Reads the stream of one step. After the stream has ended, `turn` returns the model's output. */
export type StepReader = StreamReader & { turn: () => Turn };

/** Maximum number of tools that run in one step. Further calls are refused and not traced. */
const maxToolCallsAStep = 32;

/**
 * Answers with the gateway's own tools. Alternates between model and tools until the model calls no tool or has used
 * all its steps. For each step after the first, reserves credits before calling the model.
 */
export async function answerWithTools<Parsed extends ParsedRequest>(
  gateway: Gateway,
  call: AdmittedCall<Parsed>,
  { serverTools, dialect }: { serverTools: ServerTools; dialect: ToolDialect<Parsed> },
): Promise<Response> {
  const loop = createLoop(gateway, call, { ...serverTools, dialect });
  try {
    return call.request.stream
      ? await relaySteps(gateway, call, { loop, dialect })
      : await answerWhole(gateway, call, { loop, dialect });
  } catch (error) {
    return respondToFailure(error, loop.current());
  }
}

type Loop<Parsed extends ParsedRequest> = ReturnType<typeof createLoop<Parsed>>;

/**
 * Creates the state of the conversation, with the current step's call and a function that advances to the next step.
 */
function createLoop<Parsed extends ParsedRequest>(
  gateway: Gateway,
  call: AdmittedCall<Parsed>,
  { maxSteps, tools, dialect }: ServerTools & { dialect: ToolDialect<Parsed> },
) {
  const { open, request } = call;
  const startedAt = gateway.now();
  const additions: object[] = [];
  let step = 1;
  let addedBytes = 0;

  const isFirst = () => step === 1;
  const isLast = () => step >= maxSteps;

  function current(): AdmittedCall<Parsed> {
    const stepRequest = dialect.stepRequest(request, { first: isFirst(), last: isLast(), additions });
    const { inputEstimate } = request;
    const input_tokens = inputEstimate.input_tokens + estimateTokens(addedBytes);
    return {
      ...call,
      request: { ...stepRequest, inputBytes: request.inputBytes + addedBytes },
      inputEstimate: { ...inputEstimate, input_tokens },
      mayContinue: !isLast(),
    };
  }

  /**
   * Runs the tools that the model has called and reserves its next step.
   * @throws GatewayError if the reservation is refused
   */
  async function advance(turn: Turn, use: CallUse): Promise<void> {
    open.finishCall(use);
    const results = turn.toolCalls.map((toolCall, index) => {
      const toolStartedAt = gateway.now();
      const time = new Date(Date.parse(open.run.created_at) + gateway.now() - startedAt);
      const isRefused = index >= maxToolCallsAStep;
      const { succeeded, content } = runTool({ ...toolCall, offered: isRefused ? [] : tools }, { time });
      if (isRefused) return dialect.toolResult(toolCall, content);
      open.content.recordTool({ name: toolCall.name, arguments: toolCall.arguments, result: content });
      // A name that the model invented could contain anything, so it is not recorded.
      const name = tools.find((tool) => tool === toolCall.name) ?? "unknown";
      open.addStep({ type: "tool", name, status: succeeded ? "succeeded" : "failed" }, toolStartedAt);
      return dialect.toolResult(toolCall, content);
    });
    const more = [...turn.output, ...results];
    additions.push(...more);
    addedBytes += new TextEncoder().encode(JSON.stringify(more)).length;
    step += 1;
    const { run } = open;
    const { inputBytes, images, audio, audioSeconds, serviceTier, outputLimit, hourWrites } = current().request;
    const { input_tokens = 0, output_tokens = 0 } = open.totalUsage();
    const reserved = await gateway.database.extendRun(run, {
      input_bytes: inputBytes,
      hour_writes: hourWrites !== undefined,
      images,
      audio,
      audio_seconds: audioSeconds,
      service_tier: serviceTier,
      output_limit: outputLimit,
      output_limit_assumed: request.outputLimitAssumed || undefined,
      size_fields: request.sizeFields,
      used_tokens: input_tokens + output_tokens,
    });
    changeReservation(run, reserved);
  }

  return { current, advance, isFirst, isLast };
}

async function answerWhole<Parsed extends ParsedRequest>(
  gateway: Gateway,
  call: AdmittedCall<Parsed>,
  { loop, dialect }: { loop: Loop<Parsed>; dialect: ToolDialect<Parsed> },
): Promise<Response> {
  const answers: unknown[] = [];
  for (;;) {
    const step = loop.current();
    const { answer, read } = await requestWholeAnswer(gateway, step, (whole) =>
      readWholeAnswer(whole, step, dialect.format),
    );
    const turn = dialect.readTurn(read.value);
    if (turn.toolCalls.length === 0 || loop.isLast()) {
      const before = { answers, usage: call.open.totalUsage() };
      const text = (platform: Record<string, unknown>) =>
        loop.isFirst() && turn.toolCalls.length === 0
          ? addPlatform(read, platform)
          : JSON.stringify({ ...dialect.wholeAnswer(read.value, before), platform });
      const platform = settleWholeAnswer(call, answer, { use: read.use, answer: { texts: read.texts, text } });
      return wholeResponse(call, { text: text(platform), platform });
    }
    answers.push(read.value);
    await loop.advance(turn, read.use);
  }
}

async function relaySteps<Parsed extends ParsedRequest>(
  gateway: Gateway,
  call: AdmittedCall<Parsed>,
  { loop, dialect }: { loop: Loop<Parsed>; dialect: ToolDialect<Parsed> },
): Promise<Response> {
  const { open, model } = call;
  const readerOf = dialect.createReaders(call);
  let reader: StepReader;

  async function requestStep(): Promise<StreamStep> {
    const stepCall = loop.current();
    const { usageLimits, inputEstimate } = stepCall;
    const stream = await requestStream(gateway, stepCall, dialect.format);
    reader = readerOf({ first: loop.isFirst(), last: loop.isLast(), earlier: open.totalUsage(), usageLimits });
    return { ...stream, reader, inputEstimate, usageLimits };
  }

  async function next({ answer }: StreamStep, use: CallUse): Promise<StreamStep | undefined> {
    const turn = reader.turn();
    if (turn.toolCalls.length === 0 || loop.isLast()) return undefined;
    open.addStep({ type: "model", name: model, status: "succeeded" }, answer.startedAt, answer.attempt());
    await loop.advance(turn, use);
    try {
      return await requestStep();
    } catch (error) {
      if (error instanceof ClientLeft) error.use ??= estimateUse(loop.current());
      throw error;
    }
  }

  return relayResponse(gateway, call, { step: await requestStep(), next });
}
