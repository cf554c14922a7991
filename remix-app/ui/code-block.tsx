import { Fragment } from "react";

/**
 * Shows code with a button that copies it.
 * @param props.wrap wraps long lines, so that nothing is cut off; by default they scroll
 */
export function CodeBlock({
  label,
  name,
  code,
  wrap = false,
}: {
  label: string;
  name?: string;
  code: string;
  wrap?: boolean;
}) {
  return (
    <figure className="overflow-hidden rounded-card border border-line">
      <figcaption className="flex min-h-9 items-center justify-between gap-4 border-line border-b bg-sunken py-1 pr-1 pl-3">
        <span className="font-medium text-muted text-small">{label}</span>
        <button
          type="button"
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
      <pre
        // A region that scrolls must be within the keyboard's reach.
        tabIndex={wrap ? undefined : 0}
        className={`p-3 font-mono text-small leading-5 ${wrap ? "wrap-anywhere whitespace-pre-wrap" : "-outline-offset-2 max-h-96 overflow-auto"}`}
      >
        <code>{code}</code>
      </pre>
    </figure>
  );
}

/**
 * Shows a text with a copy button. One click on the text selects all of it. Long texts break before slashes.
 */
export function CopyableText({ label, text, shown = text }: { label: string; text: string; shown?: string }) {
  return (
    <div className="space-y-1.5">
      <div className="flex items-center justify-between gap-4">
        <p className="font-medium">{label}</p>
        <button
          type="button"
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
