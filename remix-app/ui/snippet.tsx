import { useEffect, useState } from "react";

const confirmationMs = 2_000;

/** Renders code with a button that copies it. Long lines wrap, so that nothing is cut off. */
export function Snippet({ label, code }: { label: string; code: string }) {
  return (
    <figure className="overflow-hidden rounded-card border border-line">
      <figcaption className="flex items-center justify-between gap-4 border-line border-b bg-sunken py-1 pr-1 pl-3">
        <span className="font-medium text-muted text-small">{label}</span>
        <CopyButton label={label} text={code} />
      </figcaption>
      <pre className="wrap-anywhere whitespace-pre-wrap p-3 font-mono text-small leading-5">
        <code>{code}</code>
      </pre>
    </figure>
  );
}

function CopyButton({ label, text }: { label: string; text: string }) {
  const [copied, setCopied] = useState(false);
  const [usable, setUsable] = useState(false);
  useEffect(() => setUsable(navigator.clipboard !== undefined), []);
  useEffect(() => {
    if (!copied) return;
    const timer = setTimeout(() => setCopied(false), confirmationMs);
    return () => clearTimeout(timer);
  }, [copied]);
  return (
    <button
      type="button"
      onClick={async () => {
        await navigator.clipboard.writeText(text);
        setCopied(true);
      }}
      className={`h-7 shrink-0 cursor-pointer rounded-button px-2 font-medium text-muted text-small hover:bg-surface hover:text-ink ${usable ? "" : "invisible"}`}
    >
      <span aria-live="polite">{copied ? "Copied" : "Copy"}</span>
      <span className="sr-only"> {label}</span>
    </button>
  );
}
