import { type FormEvent, useEffect } from "react";
import { PageAccountField } from "../../ui/account-form.tsx";
import { ButtonLink } from "../../ui/button.tsx";
import { Select, TextArea } from "../../ui/field.tsx";
import { AnswerFacts } from "./answer-facts.tsx";
import type { PanelProps } from "./chat-panel.tsx";
import type { Sound, SpeechFormState } from "./form-answer.ts";
import { CodeSamples, FailureNotice, FormErrors, ModelSelect, SendBar } from "./panel-parts.tsx";
import { speechCode } from "./request-code.ts";
import { factsOfHeaders } from "./run-facts.ts";
import { draftSpeech, maxPlainSpeechCharacters, maxSpeechCharacters, readSpeechForm } from "./single-form.ts";
import { formOf, usePanelForm } from "./use-panel-form.ts";
import { useSingle } from "./use-single.ts";

/** Renders a form that converts text to speech, and an audio player. */
export function SpeechPanel({ workspaceId, gatewayUrl, models, answered }: PanelProps<SpeechFormState>) {
  const { answer, failure, waiting, send, stop } = useSingle<Sound>(
    `/api/v1/workspaces/${workspaceId}/ai/playground/speech`,
    { answer: answered?.sound ?? null, failure: answered?.failure ?? null },
  );
  const initial = {
    typed: answered?.typed ?? { model: models[0]?.id ?? "", voice: models[0]?.voices[0] ?? "", format: "wav" },
    errors: answered?.errors ?? {},
  };
  const { form, typed, errors, attempts, tell, onInput, onKeyDown } = usePanelForm({ initial, busy: waiting, stop });
  useEffect(() => () => releaseSound(answer), [answer]);

  function submit(event: FormEvent<HTMLFormElement>) {
    event.preventDefault();
    if (waiting) return;
    const read = readSpeechForm(new FormData(event.currentTarget));
    tell("errors" in read ? read.errors : {});
    if ("body" in read) void send(read.body, (response) => createSound(response, read.body.response_format));
  }

  const voices = models.find(({ id }) => id === typed.model)?.voices ?? [];
  return (
    <>
      <form
        ref={form}
        method="post"
        noValidate
        aria-label="Speech"
        onSubmit={submit}
        onInput={onInput}
        onKeyDown={onKeyDown}
        className="grid grid-cols-1 gap-6 lg:grid-cols-[minmax(0,1fr)_20rem]"
      >
        <PageAccountField />
        <div className="min-w-0 space-y-4">
          <FormErrors errors={errors} attempts={attempts} />
          <TextArea
            name="input"
            label="Text"
            hint={`At most ${maxSpeechCharacters.toLocaleString("en")} characters.`}
            rows={6}
            defaultValue={typed.input}
            error={errors.input}
          />
          <noscript className="block text-muted text-small">
            Without JavaScript: at most {maxPlainSpeechCharacters.toLocaleString("en")} characters.
          </noscript>
          <div className="flex flex-wrap items-center gap-3">
            <SendBar label="Generate speech" busy={waiting} stop={stop} />
          </div>
          <p role="status" className={waiting ? "text-muted" : "sr-only"}>
            {waiting ? "Generating speech…" : answer ? "Audio ready." : ""}
          </p>
          <FailureNotice failure={failure} />
          {answer ? <Player sound={answer} workspaceId={workspaceId} /> : null}
        </div>
        <fieldset className="min-w-0 space-y-4">
          <legend className="sr-only">Settings</legend>
          <ModelSelect models={models} chosen={typed.model} />
          <Select name="voice" label="Voice" defaultValue={typed.voice}>
            {voices.map((voice) => (
              <option key={voice}>{voice}</option>
            ))}
          </Select>
          <Select name="format" label="Format" defaultValue={typed.format}>
            <option value="wav">WAV</option>
            <option value="pcm">PCM, raw: 24 kHz, mono, 16 bits</option>
          </Select>
        </fieldset>
      </form>
      <CodeSamples samples={speechCode(draftSpeech(formOf(typed)), gatewayUrl)} />
    </>
  );
}

function Player({ sound, workspaceId }: { sound: Sound; workspaceId: string }) {
  const { src, download = src, format, facts } = sound;
  const playable = format === "wav" || download !== src;
  return (
    <section aria-label="Sound" className="space-y-3 rounded-card border border-line bg-surface p-4">
      {playable ? (
        // biome-ignore lint/a11y/useMediaCaption: its words are in the field above
        <audio controls src={src} aria-label="Text spoken" className="block w-full" />
      ) : (
        <p className="text-muted">Browsers can’t play raw audio. Download it instead.</p>
      )}
      <ButtonLink href={download} download={`speech.${format}`}>
        Download {format.toUpperCase()}
      </ButtonLink>
      <AnswerFacts facts={facts} workspaceId={workspaceId} />
    </section>
  );
}

async function createSound(response: Response, format: "wav" | "pcm"): Promise<Sound> {
  const facts = factsOfHeaders(response.headers);
  const sound = await response.blob();
  const soundUrl = URL.createObjectURL(sound);
  if (format === "wav") return { src: soundUrl, format, facts };
  const playable = new Blob([wavHeader(sound.size), sound], { type: "audio/wav" });
  return { src: URL.createObjectURL(playable), download: soundUrl, format, facts };
}

function releaseSound(sound: Sound | null): void {
  for (const url of [sound?.src, sound?.download]) if (url?.startsWith("blob:")) URL.revokeObjectURL(url);
}

/** Speech is 24 kHz, mono, 16 bits. */
const sampleRate = 24_000;
const bytesPerSample = 2;
const headerBytes = 44;

/**
 * Returns the header that makes raw samples a WAV file, which browsers can play (RIFF, "Multimedia Programming
 * Interface" 1.0).
 */
function wavHeader(sampleBytes: number): Uint8Array<ArrayBuffer> {
  const header = new DataView(new ArrayBuffer(headerBytes));
  const text = (at: number, letters: string) => {
    for (const [index, letter] of [...letters].entries()) header.setUint8(at + index, letter.charCodeAt(0));
  };
  text(0, "RIFF");
  header.setUint32(4, headerBytes - 8 + sampleBytes, true);
  text(8, "WAVEfmt ");
  header.setUint32(16, 16, true);
  header.setUint16(20, 1, true);
  header.setUint16(22, 1, true);
  header.setUint32(24, sampleRate, true);
  header.setUint32(28, sampleRate * bytesPerSample, true);
  header.setUint16(32, bytesPerSample, true);
  header.setUint16(34, bytesPerSample * 8, true);
  text(36, "data");
  header.setUint32(40, sampleBytes, true);
  return new Uint8Array(header.buffer);
}
