import { Fragment } from "react";

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

/**
 * Shows a text with a copy button, which stays hidden without JavaScript. One click on the text selects all of it. Long
 * texts break before slashes.
 */
export function Copyable({ label, text, shown = text }: { label: string; text: string; shown?: string }) {
  return (
    <div className="space-y-1.5">
      <div className="flex items-center justify-between gap-4">
        <p className="font-medium">{label}</p>
        <button
          type="button"
          hidden
          data-copies={text}
          className="-mr-2.5 shrink-0 cursor-pointer rounded-button px-2.5 py-1.5 font-medium text-muted text-small hover:bg-sunken hover:text-ink"
        >
          <span aria-live="polite">Copy</span>
          <span className="sr-only"> {label}</span>
        </button>
      </div>
      <code className="block select-all break-words rounded-card border border-line bg-sunken px-3 py-2 font-mono">
        {shown.split(/(?<=[^/])(?=\/(?!\/))/).map((part, index) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: parts of one text
          <Fragment key={index}>
            {index > 0 ? <wbr /> : null}
            {part}
          </Fragment>
        ))}
      </code>
    </div>
  );
}
