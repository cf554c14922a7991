/** Terms and what they are, one under the other. */
export function Facts({ facts }: { facts: readonly (readonly [term: string, text: string])[] }) {
  return (
    <dl className="grid grid-cols-1 gap-x-8 gap-y-2 sm:grid-cols-[auto_1fr]">
      {facts.map(([term, text]) => (
        <div key={term} className="sm:contents">
          <dt className="text-muted">{term}</dt>
          <dd className="wrap-anywhere min-w-0 tabular-nums">{text}</dd>
        </div>
      ))}
    </dl>
  );
}
