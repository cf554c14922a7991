# The web server as it runs in production, and Notes with the command `node satellites/notes/server.ts`. The functions are deployed to Supabase: docs/deploying.md.
FROM node:24-slim AS build
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
COPY packages/cli/package.json packages/cli/
COPY packages/local-stack/package.json packages/local-stack/
COPY packages/satellite/package.json packages/satellite/
# Nothing of what install scripts bring (Postgres, Deno, a browser) is needed to build.
RUN npm ci --ignore-scripts
COPY . .
RUN ./node_modules/.bin/remix vite:build

FROM node:24-slim
WORKDIR /app
ENV NODE_ENV=production HOST=0.0.0.0 PORT=3000
COPY package.json package-lock.json .npmrc ./
COPY packages/cli/package.json packages/cli/
COPY packages/local-stack/package.json packages/local-stack/
COPY packages/satellite/package.json packages/satellite/
RUN npm ci --omit=dev --ignore-scripts && npm cache clean --force
# The server and its worker threads run from their source.
COPY remix-app ./remix-app
COPY supabase/functions/_shared ./supabase/functions/_shared
COPY packages/satellite ./packages/satellite
COPY satellites ./satellites
COPY --from=build /app/build ./build
USER node
EXPOSE 3000
HEALTHCHECK CMD ["node", "-e", "fetch('http://127.0.0.1:' + process.env.PORT + '/healthz').then(({ ok }) => process.exit(ok ? 0 : 1), () => process.exit(1))"]
# Not through npm, which keeps signals from it.
CMD ["node", "remix-app/server.ts"]
