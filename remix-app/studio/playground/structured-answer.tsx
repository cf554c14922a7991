import { CircleCheck, TriangleAlert } from "lucide-react";

/**
 * An answer that was to be JSON, and whether it is what was asked for.
 * @param props.schemaValid the gateway's verdict; undefined where it has none, and JSON is all that can be told
 */
export function StructuredAnswer({ text, schemaValid }: { text: string; schemaValid: boolean | undefined }) {
  const value = parsed(text);
  const verdict = verdictOf(value !== undefined, schemaValid);
  const Icon = verdict.good ? CircleCheck : TriangleAlert;
  return (
    <>
      <pre className="whitespace-pre-wrap break-words rounded-card border border-line p-3 font-mono text-small">
        {value === undefined ? text : JSON.stringify(value, null, 2)}
      </pre>
      <p className={`flex items-center gap-1.5 text-small ${verdict.good ? "text-good" : "text-warn"}`}>
        <Icon aria-hidden="true" className="size-4 shrink-0" />
        {verdict.words}
      </p>
    </>
  );
}

function verdictOf(isJson: boolean, schemaValid: boolean | undefined): { good: boolean; words: string } {
  if (!isJson) return { good: false, words: "This is no JSON." };
  if (schemaValid === undefined) return { good: true, words: "This is JSON." };
  return schemaValid
    ? { good: true, words: "It keeps to the schema." }
    : { good: false, words: "It does not keep to the schema." };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
