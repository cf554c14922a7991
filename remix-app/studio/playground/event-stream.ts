const lineBreaks = /\r\n|\n|\r/;

/** Reads server-sent events (WHATWG HTML, 9.2.6) as they come: the data of each, until the stream ends. */
export async function* eventData(stream: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const reader = stream.pipeThrough(new TextDecoderStream() as TransformStream<Uint8Array, string>).getReader();
  let rest = "";
  let data: string[] = [];
  try {
    for (let read = await reader.read(); !read.done; read = await reader.read()) {
      const held = rest + read.value;
      // A carriage return at the end may be half of a line break.
      const whole = held.endsWith("\r") ? held.slice(0, -1) : held;
      const lines = whole.split(lineBreaks);
      rest = (lines.pop() ?? "") + held.slice(whole.length);
      for (const line of lines) {
        if (line === "" && data.length > 0) {
          yield data.join("\n");
          data = [];
        } else if (line.startsWith("data:")) data.push(line.slice(5).replace(/^ /, ""));
      }
    }
  } finally {
    await reader.cancel().catch(() => {});
  }
}
