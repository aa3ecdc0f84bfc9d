"""Keys of logins, and names of images, as people write them: made up by hypothesis."""

from hypothesis import strategies as st

LABEL = st.text(st.sampled_from("ab*-"), min_size=1, max_size=4)
HOST = st.lists(LABEL, min_size=1, max_size=3).map(".".join)
PORT = st.sampled_from(["", ":5000", ":443", ":"])
PATH = st.sampled_from(["", "/", "/a", "/a/b", "/ab", "/v1", "/v1/", "/v2/a", "/v1/v2/", "/a%2Fb", "/*"])
SCHEME = st.sampled_from(["", "https://", "http://", "HTTPS://", "ftp://"])
TAIL = st.sampled_from(["", "?x=1", "#f", "?a#b"])
USER = st.sampled_from(["", "", "", "me@", "me:pw@"])
KEY = st.builds("{}{}{}{}{}{}".format, SCHEME, USER, HOST, PORT, PATH, TAIL)
IMAGE = st.builds("{}{}{}".format, HOST.map(lambda host: host.replace("*", "a")), PORT, PATH)
