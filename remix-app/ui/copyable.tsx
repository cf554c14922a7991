/** A text to take away: one click selects all of it, and a button copies it where its script runs. */
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
