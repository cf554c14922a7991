/** Shows code to copy, on pages that are not hydrated. The copy button appears once its script runs. */
export function CodeBlock({ label, name, code }: { label: string; name?: string; code: string }) {
  return (
    <figure className="overflow-hidden rounded-card border border-line">
      <figcaption className="flex min-h-9 items-center justify-between gap-4 border-line border-b bg-sunken py-1 pr-1 pl-3">
        <span className="font-medium text-muted text-small">{label}</span>
        <button
          type="button"
          hidden
          data-copies={code}
          className="h-7 shrink-0 cursor-pointer rounded-button px-2 font-medium text-muted text-small hover:bg-surface hover:text-ink"
        >
          <span aria-live="polite">Copy</span>
          <span className="sr-only">
            {" "}
            {label}
            {name ? `: ${name}` : ""}
          </span>
        </button>
      </figcaption>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be within the keyboard's reach */}
      <pre tabIndex={0} className="max-h-96 overflow-auto p-3 font-mono text-small leading-5 -outline-offset-2">
        <code>{code}</code>
      </pre>
    </figure>
  );
}

/** Shows text to copy: one click selects all of it, and a button copies it once its script runs. */
export function Copyable({ label, text, shown = text }: { label: string; text: string; shown?: string }) {
  return (
    <div className="space-y-1.5">
      <p className="font-medium">{label}</p>
      <div className="flex items-center gap-2 rounded-card border border-line bg-sunken py-1 pr-1 pl-3">
        <code className="min-w-0 flex-1 select-all break-words py-1 font-mono">{shown}</code>
        <button
          type="button"
          hidden
          data-copies={text}
          className="shrink-0 cursor-pointer rounded-button px-2.5 py-1.5 font-medium text-muted text-small hover:bg-surface hover:text-ink"
        >
          <span aria-live="polite">Copy</span>
          <span className="sr-only"> {label}</span>
        </button>
      </div>
    </div>
  );
}
