/** The product's mark: a gate, and the name beside it. */
export function Mark({ nameless = false }: { nameless?: boolean }) {
  return (
    <span className="inline-flex items-center gap-2 font-semibold text-large tracking-tight">
      <svg aria-hidden="true" viewBox="0 0 24 24" className="size-6 shrink-0 text-accent" fill="none">
        <path d="M4 21V11a8 8 0 0 1 16 0v10" stroke="currentColor" strokeWidth="2.25" strokeLinecap="round" />
        <path d="M9 21v-9a3 3 0 0 1 6 0v9" stroke="currentColor" strokeWidth="2.25" strokeLinecap="round" />
        <path d="M2.5 21h19" stroke="currentColor" strokeWidth="2.25" strokeLinecap="round" />
      </svg>
      {nameless ? null : "Gatehouse"}
    </span>
  );
}
