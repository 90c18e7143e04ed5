//! The references of a repository: which commit is meant.

use helmops_git::wire::Version;

use super::{
    Arc, FetchRequest, GitError, Greeting, HttpSession, Instant, Pack, ReadMemory, Reference, ReferenceQuery,
    References, RepositoryKey, RequestPermit, Selected, Source, Transport,
};
use crate::cache::Requester;

/// The key of cached references.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct ReferencesKey {
    pub repository: RepositoryKey,
    pub query: ReferenceQuery,
}

impl ReferencesKey {
    pub fn bytes(&self) -> usize {
        self.repository.bytes() + self.query.bytes()
    }
}

impl Source<'_> {
    /// The commit that is meant, by references at `since` or later.
    pub async fn select(&self, reference: &Reference, since: Instant) -> Result<Selected, GitError> {
        let references = match reference.query() {
            None => Arc::default(),
            Some(query) => self.references(query, since).await?,
        };
        reference.select(&references).map_err(|source| GitError::Select {
            url: self.shown(),
            source,
        })
    }

    async fn references(&self, query: ReferenceQuery, since: Instant) -> Result<Arc<References>, GitError> {
        let key = ReferencesKey {
            repository: self.key(),
            query,
        };
        let requester = Requester {
            namespace: &self.access.namespace,
            since,
        };
        let acquire = || self.acquire_permit();
        let references = self.repositories.references.get(
            &key,
            requester,
            |_| true,
            acquire,
            async |permit, _| self.read_references(&permit, &key.query).await.map(Arc::new),
        );
        references.await.map_err(|error| self.own_error(error))
    }

    async fn read_references(
        &self,
        permit: &RequestPermit,
        query: &ReferenceQuery,
    ) -> Result<References, GitError> {
        match self.transport(permit) {
            Transport::Ssh(session) => session.references(query).await,
            Transport::Http(session) => self.references_over_http(session, query).await,
        }
    }

    async fn references_over_http(
        &self,
        session: HttpSession<'_>,
        query: &ReferenceQuery,
    ) -> Result<References, GitError> {
        if let Some(known) = self.known_greeting()
            && known.capabilities.version == Version::Two
            && !known.is_redirected
        {
            match session.references(&known, query).await {
                // The server may have been replaced by another one.
                Err(error) if error.may_be_of_another_server() => {
                    self.repositories.greetings.remove(&self.key());
                }
                other => return other,
            }
        }
        let (greeting, references) = self.greet(session, query).await?;
        match references {
            Some(references) => Ok(references),
            None => session.references(&greeting, query).await,
        }
    }

    /// What the server can do now, and the references that an older one sends.
    async fn greet(
        &self,
        session: HttpSession<'_>,
        query: &ReferenceQuery,
    ) -> Result<(Greeting, Option<References>), GitError> {
        let (greeting, references) = session.greeting(query).await?;
        self.keep_greeting(greeting.clone());
        Ok((greeting, references))
    }

    fn known_greeting(&self) -> Option<Greeting> {
        self.repositories.greetings.get(&self.key(), Instant::now())
    }

    /// Keeps what the server can do for other requests.
    pub fn keep_greeting(&self, greeting: Greeting) {
        self.repositories
            .greetings
            .put(self.key(), greeting, Instant::now());
    }

    /// A pack by what is known of the server, and by what it says now if that does not hold any more.
    pub async fn pack_over_http(
        &self,
        session: HttpSession<'_>,
        wanted: &FetchRequest,
    ) -> Result<(Pack, ReadMemory, Greeting), GitError> {
        let mut refused = None;
        if let Some(known) = self.known_greeting() {
            match session.pack(&known, wanted).await {
                Ok((pack, memory)) => return Ok((pack, memory, known)),
                Err(error) if error.may_be_of_another_server() => {
                    self.repositories.greetings.remove(&self.key());
                    refused = Some((known, error));
                }
                Err(error) => return Err(error),
            }
        }
        let (greeting, _) = self.greet(session, &ReferenceQuery::Head).await?;
        match refused {
            Some((known, error)) if known == greeting => Err(error),
            _ => {
                let (pack, memory) = session.pack(&greeting, wanted).await?;
                Ok((pack, memory, greeting))
            }
        }
    }
}
