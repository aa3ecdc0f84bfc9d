// node server.mjs MODULES PEM: an OpenID Connect server with TLS; all state is in memory.
// Clients: svc (client credentials, secret in a header), post (the same, secret in the body), cli (public, a person by
// device code, with refresh tokens), web (public, a person by code and PKCE). Any user name and password is good.
import fs from 'node:fs';
import https from 'node:https';
import path from 'node:path';
import { pathToFileURL } from 'node:url';

const [modules, pem] = process.argv.slice(2).map((name) => path.resolve(name));
const { default: Provider } = await import(pathToFileURL(path.join(modules, 'oidc-provider', 'lib', 'index.js')).href);
const identity = fs.readFileSync(pem);
const server = https.createServer({ cert: identity, key: identity });
await new Promise((resolve) => { server.listen(0, '127.0.0.1', resolve); });
const issuer = `https://127.0.0.1:${server.address().port}`;
const nobody = { redirect_uris: [], response_types: [] };
const person = { token_endpoint_auth_method: 'none', application_type: 'native', scope: 'openid offline_access api' };

const provider = new Provider(issuer, {
  clients: [
    { ...nobody, client_id: 'svc', client_secret: 'svc-secret', grant_types: ['client_credentials'], scope: 'api' },
    { ...nobody, client_id: 'post', client_secret: 'post-secret', grant_types: ['client_credentials'], scope: 'api',
      token_endpoint_auth_method: 'client_secret_post' },
    { ...nobody, ...person, client_id: 'cli',
      grant_types: ['urn:ietf:params:oauth:grant-type:device_code', 'refresh_token'] },
    { ...person, client_id: 'web', redirect_uris: ['http://127.0.0.1/callback'], response_types: ['code'],
      grant_types: ['authorization_code', 'refresh_token'] },
  ],
  scopes: ['openid', 'offline_access', 'api'],
  conformIdTokenClaims: false,
  claims: { openid: ['sub', 'email', 'groups'] },
  clientAuthMethods: ['none', 'client_secret_basic', 'client_secret_post'],
  rotateRefreshToken: true,
  features: {
    clientCredentials: { enabled: true },
    deviceFlow: { enabled: true },
    devInteractions: { enabled: true },
    resourceIndicators: {
      enabled: true,
      defaultResource: () => 'urn:test:api',
      useGrantedResource: () => true,
      getResourceServerInfo: () => (
        { scope: 'api', audience: 'kubernetes', accessTokenTTL: 300, accessTokenFormat: 'jwt' }),
    },
  },
  findAccount: (context, id) => (
    { accountId: id, claims: () => ({ sub: id, email: `${id}@example.com`, groups: ['devs'] }) }),
  ttl: { AccessToken: 300, IdToken: 300, ClientCredentials: 300, DeviceCode: 600, RefreshToken: 3600,
    Session: 3600, Grant: 3600, Interaction: 600 },
  cookies: { keys: ['k'] },
});

server.on('request', provider.callback());
console.log(`issuer ${issuer}`);
