import { writeFileSync } from "node:fs";
import { OpenAI } from "openai";
import { z } from "zod";
import { PlatformRefusal, workspaceOf } from "./base-api.ts";
import type { Caller } from "./phone-session.ts";

const platform = z.object({ platform: z.object({ kind: z.string(), name: z.string() }) });

/** Creates an unmodified OpenAI client for the gateway, with the user's session and a workspace. */
async function gatewayOf(caller: Caller, workspaceId: string | null): Promise<OpenAI> {
  return new OpenAI({
    baseURL: `${caller.ai}/v1`,
    apiKey: caller.accessToken,
    defaultHeaders: { "X-Platform-Workspace-Id": await workspaceOf(caller, workspaceId) },
  });
}

/** Calls the gateway. @throws PlatformRefusal if the gateway refuses */
async function ask<Answer>(asking: () => Promise<Answer>): Promise<Answer> {
  try {
    return await asking();
  } catch (error) {
    if (!(error instanceof OpenAI.APIError) || error.status === undefined) throw error;
    const { message, code, requestID } = error;
    throw new PlatformRefusal({ detail: message, code: code ?? "no code", requestId: requestID ?? "" });
  }
}

/** Lists the models that this session may use. */
export function listModels(caller: Caller, { workspaceId }: { workspaceId: string | null }) {
  return ask(async () => {
    const gateway = await gatewayOf(caller, workspaceId);
    const models: { id: string; kind: string; name: string }[] = [];
    for await (const model of gateway.models.list()) {
      const { kind, name } = platform.safeParse(model).data?.platform ?? { kind: "", name: "" };
      models.push({ id: model.id, kind, name });
    }
    return models;
  });
}

/** Sends a prompt to a model, and writes its answer as it arrives. */
export function say(
  caller: Caller,
  options: { text: string; model: string; workspaceId: string | null; write: (text: string) => void },
): Promise<void> {
  const { text, model, workspaceId, write } = options;
  return ask(async () => {
    const gateway = await gatewayOf(caller, workspaceId);
    const messages = [{ role: "user", content: text } as const];
    for await (const chunk of await gateway.chat.completions.create({ model, messages, stream: true })) {
      write(chunk.choices[0]?.delta.content ?? "");
    }
  });
}

/** Converts a text to speech, and saves it as WAV. @returns the number of bytes */
export function speak(
  caller: Caller,
  { text, voice, file, workspaceId }: { text: string; voice: string | null; file: string; workspaceId: string | null },
): Promise<number> {
  return ask(async () => {
    const gateway = await gatewayOf(caller, workspaceId);
    // Sends no model, and no voice unless one is named, so that the gateway chooses them. The client's types require
    // both.
    const body = { input: text, response_format: "wav", ...(voice ? { voice } : {}) };
    const response = await gateway.post<Response>("/audio/speech", { body, __binaryResponse: true });
    const audio = new Uint8Array(await response.arrayBuffer());
    writeFileSync(file, audio);
    return audio.byteLength;
  });
}
